// kinora-decode: decodes one file for its parent, in a sandbox. kinora-worker and kinora-render start it
// (decoder_process.h); it is not meant to be run by hand. Descriptor 0: the request, 1: the reply, 3: the file, open
// for reading.
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
constexpr char kHelp[] =
    "kinora-decode: decode an input file in a sandbox\n\n"
    "kinora-worker and kinora-render start it; it is not meant to be run by hand.\n";

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

DecodeSink ReplySink() {
  auto info = std::make_shared<MediaInfo>();
  return {
      .info =
          [info](const MediaInfo& of_file) {
            *info = of_file;
            Send(ReplyKind::kInfo, &of_file, sizeof(of_file));
          },
      .picture = [info](const uint8_t* rgb) { Send(ReplyKind::kPicture, rgb, size_t{3} * info->width * info->height); },
      .samples =
          [info](const float* samples, int64_t count) {
            Send(ReplyKind::kSamples, samples, static_cast<size_t>(count) * info->channels * sizeof(float));
          }};
}

void SendText(ReplyKind kind, std::string_view text) {
  Send(kind, text.data(), std::min(text.size(), kMostErrorBytes));
}

void Answer(const DecodeRequest& request, int64_t bytes) {
  absl::Status status;
  try {
    status = Decode({.bytes = bytes, .read = &ReadFile}, request, ReplySink());
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
    status = absl::UnavailableError("started by hand; only kinora-worker and kinora-render start it");
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
  const std::string_view flag = argc == 2 ? argv[1] : "";
  if (flag == "--help" || flag == "-h") return std::fputs(kinora::kHelp, stdout) < 0 ? 1 : 0;
  if (flag == "--version") {  // of the package that it came in
    return std::fputs(kinora::VersionText("kinora-decode").c_str(), stdout) < 0 ? 1 : 0;
  }
  _exit(kinora::Main());
}
