#include "tests/attack/sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstdlib>

#include "absl/strings/match.h"

namespace kinora {

FileDescriptor ConnectTo(const std::string& address, const std::string& from) {
  sockaddr_un local{.sun_family = AF_UNIX, .sun_path = {}};
  sockaddr_in remote{};
  const bool is_local = absl::StartsWith(address, "unix:");
  if (is_local) {
    address.copy(local.sun_path, sizeof(local.sun_path) - 1, 5);
  } else {
    remote.sin_family = AF_INET;
    remote.sin_port = htons(static_cast<uint16_t>(std::atoi(address.substr(address.rfind(':') + 1).c_str())));
    remote.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  }
  FileDescriptor socket(::socket(is_local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!from.empty()) {
    sockaddr_in own{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {}, .sin_zero = {}};
    if (inet_pton(AF_INET, from.c_str(), &own.sin_addr) != 1) return FileDescriptor();
    if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&own), sizeof(own)) != 0) return FileDescriptor();
  }
  const int result = is_local ? connect(socket.get(), reinterpret_cast<const sockaddr*>(&local), sizeof(local))
                              : connect(socket.get(), reinterpret_cast<const sockaddr*>(&remote), sizeof(remote));
  return result == 0 ? std::move(socket) : FileDescriptor();
}

int SendSome(const FileDescriptor& socket, const std::string& bytes) {
  const ssize_t n = send(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (n >= 0) return static_cast<int>(n);
  return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
}

}  // namespace kinora
