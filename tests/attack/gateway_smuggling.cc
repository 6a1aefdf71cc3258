// Requests whose end is in doubt: a proxy in front of the gateway could see one request where the gateway sees two.
// Each hides a DELETE of a real job behind the doubt. The gateway must reject the first and never read the second.
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "tests/attack/gateway_attack.h"
#include "tests/attack/sockets.h"

namespace kinora {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(10);

// Header lines, each with what follows the empty line before the hidden request.
std::vector<std::pair<std::string, std::string>> Forms() {
  const std::string chunked = "Transfer-Encoding: chunked\r\n", end = "0\r\n\r\n";
  std::vector<std::pair<std::string, std::string>> forms = {
      {"Content-Length: 5\r\n" + chunked, end},
      {chunked + "Content-Length: 5\r\n", end},
      {"Content-Length: 0\r\nContent-Length: 5\r\n", ""},
      {"Content-Length: 0, 5\r\n", ""},
      {"Content-Length: 0\r\n Content-Length: 5\r\n", ""},
      {"Content-Length: 0\nX: y\r\n", ""},
      {"Content-Length : 0\r\n", ""},
      {"Content-Length: 0x0\r\n", ""},
      {"Content-Length: +0\r\n", ""},
      {"Content-Length: 18446744073709551616\r\n", ""},
      {"X: y\r\n" + chunked + "Transfer-Encoding: identity\r\n", end},
      {"Transfer-Encoding: chunked, identity\r\n", end},
      {"Transfer-Encoding: identity, chunked\r\n", end},
      {"Transfer-Encoding: xchunked\r\n", end},
      {"Transfer-Encoding:\x0b"
       "chunked\r\n",
       end},
      {"Transfer-Encoding\t: chunked\r\n", end},
      {"X: y\r\n\tTransfer-Encoding: chunked\r\n", end},
      {"X: y\rTransfer-Encoding: chunked\r\n", end},
      {"X: y\nTransfer-Encoding: chunked\r\n", end},
      {std::string("X: y\0", 5) + "\r\n" + chunked, end},
      {"Host: other\r\n", ""},
  };
  // Chunks: the head is right, the body is not.
  for (const char* body :
       {"0\n\n", "0\r\n\n", "0\n\r\n", "0\r\r\n", "0 \r\n\r\n", "+0\r\n\r\n", "0x0\r\n\r\n", "-0\r\n\r\n",
        "10000000000000000\r\n", "1\r\nx0\r\n\r\n", "1\nx\r\n0\r\n\r\n", "1\r\nx\n0\r\n\r\n", "0;a=\"\n\r\n\r\n",
        "0;a\n\r\n\r\n", " 0\r\n\r\n", "\r\n0\r\n\r\n", ";\r\n\r\n", "0\r\nX: y\n\r\n"}) {
    forms.emplace_back(chunked, body);
  }
  return forms;
}

absl::Status Hide(const GatewayTarget& target, const std::string& job, const std::string& form, const std::string& body,
                  bool byte_by_byte, Effort& effort) {
  const std::string bytes =
      absl::StrCat(target.Head("POST", "/v1/estimates"), "Content-Type: application/json\r\n", form, "\r\n", body,
                   target.Head("DELETE", absl::StrCat("/v1/videos/", job)), "\r\n");
  const FileDescriptor socket = ConnectTo(target.address());
  effort.connections += 1;
  effort.bytes += static_cast<int64_t>(bytes.size());
  for (size_t at = 0; at < bytes.size(); at += byte_by_byte ? 1 : bytes.size()) {
    if (!SendAll(socket, bytes.substr(at, byte_by_byte ? 1 : bytes.size()))) break;
  }
  bool closed = false;
  const std::string reply = ReadAll(socket, kPatience, &closed);
  const bool rejected =
      reply.empty() ? closed : absl::StartsWith(reply, "HTTP/1.1 4") || absl::StartsWith(reply, "HTTP/1.1 501");
  if (closed && rejected && reply.find("HTTP/1.1", 1) == std::string::npos) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("not rejected, or not ended: ", form, body, " with ", reply));
}

absl::Status Smuggle(const GatewayTarget& target, Effort& effort) {
  KINORA_ASSIGN_OR_RETURN(const std::string job, target.Create("steps=1"));
  for (const auto& [form, body] : Forms()) {
    for (const bool byte_by_byte : {false, true}) {
      KINORA_RETURN_IF_ERROR(Hide(target, job, form, body, byte_by_byte, effort));
    }
  }
  // A chunk extension, a trailer and a limited number of leading zeros have one meaning.
  const FileDescriptor plain = ConnectTo(target.address());
  SendAll(plain, absl::StrCat(target.Head("POST", "/v1/estimates"), "Content-Type: application/json\r\n",
                              "Transfer-Encoding: chunked\r\n\r\n002;a=\"b\"\r\n{}\r\n0\r\nX: y\r\n\r\n",
                              target.Head("GET", "/livez"), "Connection: close\r\n\r\n"));
  const std::string both = ReadAll(plain, kPatience);
  if (both.find("HTTP/1.1 200", 1) == std::string::npos) {
    return absl::InternalError(absl::StrCat("two plain requests were answered with ", both));
  }
  const std::string found = target.Ask(absl::StrCat(target.Head("GET", absl::StrCat("/v1/videos/", job)), "\r\n"));
  if (absl::StartsWith(found, "HTTP/1.1 200")) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the hidden request deleted the job: ", found));
}

}  // namespace
}  // namespace kinora

int main() {
  return kinora::RunGatewayAttack(
      {.name = "gateway_smuggling", .flags = {}, .most_growth_bytes = 16 << 20, .attack = kinora::Smuggle});
}
