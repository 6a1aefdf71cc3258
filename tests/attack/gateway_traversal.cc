// A client with a token asks for paths outside the API: none may name a file, reach another call of the frontend, or
// put its bytes into the reply's head or the log.
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/attack/gateway_attack.h"
#include "tests/attack/sockets.h"

namespace kinora {
namespace {

std::vector<std::string> Targets() {
  std::vector<std::string> targets = {"//etc/passwd",
                                      "/\\etc\\passwd",
                                      "/..\\..\\etc\\passwd",
                                      "http://localhost/livez",
                                      "*",
                                      "",
                                      "etc/passwd",
                                      "/v1/videos/.",
                                      "/v1/videos/..",
                                      "/v1/videos//content",
                                      "/v1/videos/a%0d%0aX-Injected:%20yes",
                                      "/v1/videos/a\tb",
                                      "/v1/videos/%00",
                                      "/v1/videos/a/content/../../b",
                                      "/v1/videos/a;b",
                                      "/v1/videos/a%2fcontent",
                                      "/V1/VIDEOS/a",
                                      "/v1/videos/a/",
                                      "/v1/videos/a/content?variant=../../etc/passwd",
                                      "/v1/videos?after=../../etc/passwd",
                                      "/v1/videos?after=%0d%0aX-Injected:%20yes",
                                      "/v1/videos/" + std::string(8000, 'a'),
                                      "/v1/videos/" + std::string(65, 'a'),
                                      "/kinora.v1.VideoGeneration/ListVideos",
                                      "/metrics/../v1/videos"};
  for (const char* up : {"..", "%2e%2e", "%252e%252e", "..%2f..", "..%5c..", ".%2e", "%c0%ae%c0%ae", "....//...."}) {
    std::string climb;
    for (int i = 0; i < 8; ++i) absl::StrAppend(&climb, "/", up);
    for (const char* before : {"", "/v1", "/v1/videos", "/v1/videos/a/content"}) {
      targets.push_back(absl::StrCat(before, climb, "/etc/passwd"));
    }
  }
  return targets;
}

absl::Status Climb(const GatewayTarget& target, Effort& effort) {
  for (const std::string& path : Targets()) {
    for (const char* method : {"GET", "HEAD", "POST", "DELETE", "PUT", "CONNECT", "TRACE", "OPTIONS"}) {
      const FileDescriptor socket = ConnectTo(target.address());
      const std::string request =
          absl::StrCat(target.Head(method, path), "Content-Length: 0\r\nConnection: close\r\n\r\n");
      SendAll(socket, request);
      effort.connections += 1;
      effort.bytes += static_cast<int64_t>(request.size());
      bool closed = false;
      const std::string reply = ReadAll(socket, absl::Seconds(10), &closed);
      const bool rejected =
          closed && (absl::StartsWith(reply, "HTTP/1.1 4") || absl::StartsWith(reply, "HTTP/1.1 501") ||
                     absl::StartsWith(reply, "HTTP/1.1 204 No Content\r\nAllow: "));  // to OPTIONS
      const std::string head = reply.substr(0, reply.find("\r\n\r\n"));
      if (!rejected || absl::StrContains(reply, "root:") || absl::StrContains(head, "X-Injected")) {
        return absl::InternalError(absl::StrCat(method, " ", path, " was answered with ", reply));
      }
    }
  }
  if (absl::StrContains(target.Log(), "\nX-Injected")) return absl::InternalError("a path has made a line of the log");
  return absl::OkStatus();
}

}  // namespace
}  // namespace kinora

int main() {
  // Requests come faster than the default rate.
  return kinora::RunGatewayAttack({.name = "gateway_traversal",
                                   .flags = {"--max-requests-per-second=0"},
                                   .most_growth_bytes = 16 << 20,
                                   .attack = kinora::Climb});
}
