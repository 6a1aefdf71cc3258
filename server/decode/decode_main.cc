// kinora-decode: decodes one file for its parent, in a sandbox. Descriptor 0: the request, 1: the answer, 3: the file,
// open to be read. Not for people: decoder_process.h starts it.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "server/decode/decode_protocol.h"
#include "server/decode/decoder.h"
#include "server/decode/sandbox.h"

namespace kinora {
namespace {

constexpr int kRequestFd = 0, kReplyFd = 1, kFileFd = 3;
constexpr int kNobodyListens = 1, kNotStarted = 2;  // exit statuses

void Write(const void* bytes, size_t size) {
  for (size_t done = 0; done < size;) {
    const ssize_t n = write(kReplyFd, static_cast<const char*>(bytes) + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) _exit(kNobodyListens);
    done += n;
  }
}

void Send(ReplyKind kind, const void* bytes, size_t size) {
  const ReplyHeader header{.kind = kind, .bytes = static_cast<uint32_t>(size)};
  Write(&header, sizeof(header));
  Write(bytes, size);
}

bool ReadRequest(DecodeRequest& request) {
  for (size_t done = 0; done < sizeof(request);) {
    const ssize_t n = read(kRequestFd, reinterpret_cast<char*>(&request) + done, sizeof(request) - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += n;
  }
  return CheckDecodeRequest(request).ok();
}

int64_t ReadFile(int64_t offset, uint8_t* to, int64_t size) {
  while (true) {
    const ssize_t n = pread(kFileFd, to, size, offset);
    if (n >= 0 || errno != EINTR) return n;
  }
}

DecodeSink ReplySink(const DecodeRequest& request) {
  const size_t picture_bytes = size_t{3} * sizeof(float) * request.width * request.height;
  auto channels = std::make_shared<int32_t>(0);
  return {.info =
              [channels](const MediaInfo& info) {
                *channels = info.channels;
                Send(ReplyKind::kInfo, &info, sizeof(info));
              },
          .picture = [picture_bytes](const float* picture) { Send(ReplyKind::kPicture, picture, picture_bytes); },
          .samples =
              [channels](const float* samples, int64_t count) {
                Send(ReplyKind::kSamples, samples, static_cast<size_t>(count) * *channels * sizeof(float));
              }};
}

int Main() {
  struct stat info;
  DecodeRequest request;
  if (!ReadRequest(request) || fstat(kFileFd, &info) != 0 || !S_ISREG(info.st_mode)) return kNotStarted;
  if (!EnterSandbox({}).ok()) return kNotStarted;
  const absl::Status status = Decode({.bytes = info.st_size, .read = &ReadFile}, request, ReplySink(request));
  if (status.ok()) {
    Send(ReplyKind::kEnd, nullptr, 0);
  } else {
    const std::string text(status.message());
    Send(ReplyKind::kError, text.data(), std::min(text.size(), kMostErrorBytes));
  }
  return 0;
}

}  // namespace
}  // namespace kinora

int main() { _exit(kinora::Main()); }
