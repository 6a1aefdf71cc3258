#include "server/net/call_flood.h"

#include <grpc/grpc.h>
#include <grpc/support/alloc.h>
#include <linux/tcp.h>  // its tcp_info has the bytes that came, glibc's has not
#include <netinet/in.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace kinora {
namespace {

constexpr double kPerSecond = 100;
constexpr uint64_t kLookAfterBytes = 4 << 10;  // 160 of the smallest calls

// Parses and frees an answer of gRPC: channelz.proto as JSON, in which 64-bit numbers are strings. `text` is null if
// the object no longer exists.
nlohmann::json Take(char* text) {
  const std::string owned = text == nullptr ? "" : text;
  gpr_free(text);
  return nlohmann::json::parse(owned, nullptr, /*allow_exceptions=*/false);
}

int64_t Number(const nlohmann::json& parent, const char* name) {  // 0 if it is absent, as gRPC writes it
  int64_t value = 0;
  if (!parent.is_object() || !parent.contains(name) || !parent[name].is_string()) return 0;
  return absl::SimpleAtoi(parent[name].get<std::string>(), &value) ? value : 0;
}

// Returns the elements of `parent.list`, or none if it is absent.
nlohmann::json List(const nlohmann::json& parent, const char* list) {
  return parent.is_object() && parent.contains(list) ? parent[list] : nlohmann::json::array();
}

// "ipv4:127.0.0.1:4711", "ipv6:%5B::1%5D:4711".
std::string NameInGrpc(const SocketAddress& peer) {
  const std::string text = peer.ToString();
  return text[0] == '[' ? absl::StrCat("ipv6:", absl::StrReplaceAll(text, {{"[", "%5B"}, {"]", "%5D"}}))
                        : absl::StrCat("ipv4:", text);
}

uint64_t BytesReceived(int fd) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? info.tcpi_bytes_received : 0;
}

}  // namespace

void CallFlood::ListSockets() {
  sockets_.clear();
  for (const auto& server : List(Take(grpc_channelz_get_servers(0)), "server")) {
    if (!server.contains("ref")) continue;
    const int64_t id = Number(server["ref"], "serverId");
    int64_t next = 0;
    for (bool end = false; !end;) {
      const nlohmann::json page = Take(grpc_channelz_get_server_sockets(id, next, 0));
      for (const auto& socket : List(page, "socketRef")) {
        const int64_t number = Number(socket, "socketId");
        next = std::max(next, number + 1);
        const std::string name = socket.value("name", "");  // "chttp2 ipv4:127.0.0.1:4711"
        sockets_[name.substr(name.find(' ') + 1)] = number;
      }
      end = !page.is_object() || page.contains("end");
    }
  }
}

void CallFlood::FindSocket(const std::string& peer, State& state) {
  auto found = sockets_.find(peer);
  if (found == sockets_.end()) {
    ListSockets();
    found = sockets_.find(peer);
  }
  if (found == sockets_.end()) return;  // gRPC has not created it yet, perhaps because of the TLS handshake
  state.socket = found->second;
  sockets_.erase(found);  // the peer's next connection from this port has another id
}

bool CallFlood::Overdone(const ConnectionAcceptor::Connection& connection) {
  const auto [found, first] = connections_.try_emplace(connection.id);
  State& state = found->second;
  const uint64_t bytes = BytesReceived(connection.fd);
  if (bytes - state.bytes < kLookAfterBytes) return false;
  if (state.socket == 0) FindSocket(NameInGrpc(connection.peer), state);
  if (state.socket == 0) return false;
  const nlohmann::json socket = Take(grpc_channelz_get_socket(state.socket));
  if (!socket.is_object() || !socket.contains("socket")) return false;
  const nlohmann::json data = socket["socket"].value("data", nlohmann::json::object());
  const int64_t unanswered = Number(data, "streamsStarted") - Number(data, "streamsSucceeded");
  const absl::Time now = steady_.Now();
  const double seconds = absl::ToDoubleSeconds(now - state.at);  // meaningless at first, when level is 0
  state.level = std::max(0.0, state.level - seconds * kPerSecond);
  state.level = std::max(0.0, state.level + static_cast<double>(unanswered - state.unanswered));
  state.bytes = bytes;
  state.unanswered = unanswered;
  state.at = now;
  return state.level > burst_;
}

}  // namespace kinora
