// kinora-decode: decodes one file for its parent, in a sandbox. Descriptor 0: the request, 1: the answer, 3: the file,
// open to be read. Not for people: decoder_process.h starts it.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "engine/base/version.h"
#include "server/decode/decode_protocol.h"
#include "server/decode/decoder.h"
#include "server/decode/sandbox.h"

namespace kinora {
namespace {

constexpr int kRequestFd = 0, kReplyFd = 1, kFileFd = 3;
constexpr int kNobodyListens = 1;  // exit status

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
  auto info = std::make_shared<MediaInfo>();
  const size_t floats = size_t{3} * request.width * request.height;
  return {
      .info =
          [info](const MediaInfo& of_file) {
            *info = of_file;
            Send(ReplyKind::kInfo, &of_file, sizeof(of_file));
          },
      .picture = [floats](const float* picture) { Send(ReplyKind::kPicture, picture, floats * sizeof(float)); },
      .samples =
          [info](const float* samples, int64_t count) {
            Send(ReplyKind::kSamples, samples, static_cast<size_t>(count) * info->channels * sizeof(float));
          },
      .pixels = [info](const uint8_t* rgb) { Send(ReplyKind::kPicture, rgb, size_t{3} * info->width * info->height); }};
}

void SendText(ReplyKind kind, std::string_view text) {
  Send(kind, text.data(), std::min(text.size(), kMostErrorBytes));
}

void Answer(const DecodeRequest& request, int64_t bytes) {
  absl::Status status;
  try {
    status = Decode({.bytes = bytes, .read = &ReadFile}, request, ReplySink(request));
  } catch (const std::bad_alloc&) {
    return SendText(ReplyKind::kError, "its decoding takes too much memory");
  }
  if (status.ok()) return Send(ReplyKind::kEnd, nullptr, 0);
  SendText(absl::IsUnavailable(status) || absl::IsInternal(status) ? ReplyKind::kFault : ReplyKind::kError,
           std::string_view(status.message().data(), status.message().size()));
}

int Main() {
  struct stat info;
  DecodeRequest request;
  absl::Status status;
  if (!ReadRequest(request) || fstat(kFileFd, &info) != 0 || !S_ISREG(info.st_mode)) {
    status = absl::UnavailableError("it was not asked as by its parent");
  }
  if (status.ok()) status = EnterSandbox({});
  if (!status.ok()) {
    SendText(ReplyKind::kFault, std::string(status.message()));
    return 0;
  }
  Send(ReplyKind::kSandboxed, nullptr, 0);
  Answer(request, info.st_size);
  return 0;
}

}  // namespace
}  // namespace kinora

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--version") {  // of the package that it came in
    return std::fputs(kinora::VersionText("kinora-decode").c_str(), stdout) < 0 ? 1 : 0;
  }
  _exit(kinora::Main());
}
