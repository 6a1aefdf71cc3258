// Where a server listens: the addresses that a text of the configuration means, whether other machines reach them, and
// the sockets bound there.
//   "127.0.0.1:8470", "[::1]:8470", "localhost:8470": every address of the name, port 0 picks one for all of them
//   "unix:PATH": a socket of mode 0600, whatever the umask; one that a dead process left is replaced
// One address per text: a list is refused. 0.0.0.0 is all of IPv4, [::] all of both.
#ifndef KINORA_SERVER_COMMON_LISTEN_ADDRESS_H_
#define KINORA_SERVER_COMMON_LISTEN_ADDRESS_H_

#include <sys/socket.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/file_descriptor.h"

namespace kinora {

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  bool is_unix() const { return storage.ss_family == AF_UNIX; }
  // "127.0.0.1:8470", "[::1]:8470", "unix:PATH"; a Unix client without a name is "unix:".
  std::string ToString() const;
  // The same without the port: what a client keeps from one connection to the next.
  std::string Host() const;
  // Judged by the bytes: 127.0.0.0/8, ::1, their mapped forms, or a Unix socket.
  bool IsLocal() const;
};

// InvalidArgument: the text's form, a path longer than a socket's name may be (107 bytes), a name that has no address.
// Asks the name service for names; blocks as long as that takes.
absl::StatusOr<std::vector<SocketAddress>> ResolveListenAddress(const std::string& address);

// Sockets that listen, close-on-exec and non-blocking. Closed, and a path removed, by the destructor.
class ListeningSockets {
 public:
  // `field` stands before every message. `local_only`: an address that is not local is refused, however its name was
  // judged before. InvalidArgument: as above; Unavailable: in use; FailedPrecondition: not an address of this
  // machine; PermissionDenied: a port or a folder that this user may not have.
  static absl::StatusOr<ListeningSockets> Bind(const std::string& field, const std::string& address, bool local_only);

  ListeningSockets() = default;
  ListeningSockets(ListeningSockets&& other) noexcept { *this = std::move(other); }
  ListeningSockets& operator=(ListeningSockets&&) noexcept;
  ~ListeningSockets() { Close(); }

  void Close();
  const std::vector<FileDescriptor>& sockets() const { return sockets_; }
  int port() const { return port_; }  // 0 on a Unix socket

 private:
  absl::Status Add(const SocketAddress& address);
  absl::Status AddUnix(const SocketAddress& address);

  std::vector<FileDescriptor> sockets_;
  int port_ = 0;
  std::string path_;  // to remove, if the file there is still `inode_`
  ino_t inode_ = 0;
};

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_LISTEN_ADDRESS_H_
