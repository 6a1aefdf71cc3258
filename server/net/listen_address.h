// Listening addresses: resolves an address of the configuration, determines whether other machines can reach it, and
// binds its sockets.
//   "127.0.0.1:8470", "[::1]:8470", "localhost:8470": every address of the name; port 0 picks one for all of them
//   "unix:PATH": a socket of mode 0600, whatever the umask; replaces a socket that a dead process left
// A list of addresses is rejected. 0.0.0.0 is all of IPv4, [::] all of IPv4 and IPv6.
#ifndef KINORA_SERVER_NET_LISTEN_ADDRESS_H_
#define KINORA_SERVER_NET_LISTEN_ADDRESS_H_

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
  // ToString without the port or path: the same for all connections of a client.
  std::string Host() const;
  // Whether the address is in 127.0.0.0/8 (also IPv4-mapped), ::1 or a Unix socket.
  bool IsLocal() const;
};

// Resolves names through the name service, and blocks while that answers. InvalidArgument if the text is malformed, a
// socket's path is longer than 107 bytes, or a name has no address.
absl::StatusOr<std::vector<SocketAddress>> ResolveListenAddress(const std::string& address);

// Listening sockets, close-on-exec and non-blocking. The destructor closes them and removes the path of a Unix socket.
class ListeningSockets {
 public:
  // Every message begins with `field`. `local_only`: reject an address that is not local, even if its name resolved to
  // a local one before. InvalidArgument: not local, or as above; Unavailable: in use; FailedPrecondition: not an
  // address of this machine; PermissionDenied: this user may not use the port or the folder.
  static absl::StatusOr<ListeningSockets> Bind(const std::string& field, const std::string& address, bool local_only);

  // Takes over sockets that another process bound and passed to this one. InvalidArgument, beginning with `field`: one
  // is not a listening socket.
  static absl::StatusOr<ListeningSockets> Inherit(const std::string& field, const std::vector<int>& descriptors);

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
  std::string path_;  // removed by Close if it still has `inode_`
  ino_t inode_ = 0;
};

}  // namespace kinora

#endif  // KINORA_SERVER_NET_LISTEN_ADDRESS_H_
