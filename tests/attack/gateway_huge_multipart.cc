// A client with a token sends bodies that do not end: parts, names, headers, text, JSON and files. Each must be ended
// at a limit, memory and disk must stay within theirs, and the space must be free afterwards.
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "tests/attack/gateway_attack.h"
#include "tests/attack/sockets.h"

namespace kinora {
namespace {

constexpr size_t kMost = size_t{1} << 30;  // bytes of one body
constexpr int kAtOnce = 8;                 // clients with the same body
constexpr char kMultipart[] = "multipart/form-data; boundary=b", kJson[] = "application/json";
constexpr char kFile[] = "--b\r\nContent-Disposition: form-data; name=\"input_reference\"; filename=\"a\"\r\n\r\n";

struct Body {
  std::string name, type, begin, repeated;
};

std::vector<Body> Bodies() {
  const std::string part = "--b\r\nContent-Disposition: form-data; name=\"";
  return {{"parts", kMultipart, "", part + "prompt\"\r\n\r\nx\r\n"},
          {"list", kMultipart, "", part + "sigmas[]\"\r\n\r\n1\r\n"},
          {"name", kMultipart, part, "x"},
          {"part header", kMultipart, "--b\r\nX: ", "y"},
          {"part headers", kMultipart, "--b\r\n", "X: y\r\n"},
          {"text", kMultipart, part + "prompt\"\r\n\r\n", "x"},
          {"file", kMultipart, kFile, "x"},
          {"almost delimiters", kMultipart, kFile, "\r\n--"},
          {"preamble", kMultipart, "", "x"},
          {"epilogue", kMultipart, part + "prompt\"\r\n\r\nx\r\n--b--\r\n", "x"},
          {"JSON text", kJson, R"({"prompt": ")", "x"},
          {"JSON depth", kJson, R"({"prompt": )", "["},
          {"JSON list", kJson, R"({"sigmas": [1)", ",1"},
          {"JSON names", kJson, "{", R"("a": 1, )"},
          {"JSON blanks", kJson, "", " "}};
}

// Sends until the server replies.
absl::Status Send(const GatewayTarget& target, const Body& body, Effort& effort) {
  const FileDescriptor socket = ConnectTo(target.address());
  effort.connections += 1;
  std::string block;
  while (block.size() < 64 << 10) block += body.repeated;
  bool open = SendAll(socket, absl::StrCat(target.Head("POST", "/v1/videos"), "Content-Type: ", body.type,
                                           "\r\nTransfer-Encoding: chunked\r\n\r\n", absl::Hex(body.begin.size() + 1),
                                           "\r\n", body.begin, body.repeated.substr(0, 1), "\r\n"));
  if (body.repeated.size() > 1)
    open = open &&
           SendAll(socket, absl::StrCat(absl::Hex(body.repeated.size() - 1), "\r\n", body.repeated.substr(1), "\r\n"));
  std::string reply;
  for (size_t sent = 0; sent < kMost && open && reply.empty(); sent += block.size()) {
    open = SendAll(socket, absl::StrCat(absl::Hex(block.size()), "\r\n", block, "\r\n"));
    effort.bytes += static_cast<int64_t>(block.size());
    bool closed = false;
    absl::StrAppend(&reply, ReadAll(socket, absl::ZeroDuration(), &closed));
    open = open && !closed;
  }
  if (open && reply.empty()) absl::StrAppend(&reply, ReadAll(socket, absl::Seconds(5)));
  if (!open || absl::StartsWith(reply, "HTTP/1.1 4")) return absl::OkStatus();  // often a reset hides the reply
  return absl::InternalError(absl::StrCat("a body without end (", body.name, ") was answered with ", reply));
}

absl::Status SendAllBodies(const GatewayTarget& target, Effort& effort) {
  for (const Body& body : Bodies()) {
    std::vector<absl::Status> sent(kAtOnce);
    std::vector<std::thread> clients;
    for (int i = 0; i < kAtOnce; ++i) clients.emplace_back([&, i] { sent[i] = Send(target, body, effort); });
    absl::Status live = target.IsLive();
    for (std::thread& client : clients) client.join();
    for (const absl::Status& status : sent) KINORA_RETURN_IF_ERROR(status);
    KINORA_RETURN_IF_ERROR(live);
  }
  // All memory and space for bodies is free again.
  return target.Serves();
}

}  // namespace
}  // namespace kinora

int main() {
  return kinora::RunGatewayAttack(
      {.name = "gateway_huge_multipart",
       .flags = {"--max-upload-bytes=64MiB", "--max-scratch-bytes=128MiB", "--max-body-memory-bytes=64MiB"},
       .most_growth_bytes = 256 << 20,
       .attack = kinora::SendAllBodies});
}
