#include "server/net/listen_address.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

constexpr char kForm[] = "must be host:port or unix:PATH, one address";
constexpr size_t kLongestPath = sizeof(sockaddr_un{}.sun_path) - 1;
constexpr int kBacklog = 512;
constexpr int kPortDraws = 20;  // attempts to find a port that is free on every address of a name

absl::Status Wrong(const std::string& address, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("\"", address, "\": ", why));
}

absl::StatusOr<std::vector<SocketAddress>> UnixAddress(const std::string& address, absl::string_view path) {
  if (path.empty()) return Wrong(address, kForm);
  if (path.size() > kLongestPath) {
    return Wrong(address, absl::StrCat("a socket path has at most ", kLongestPath, " characters"));
  }
  SocketAddress out;
  auto* name = reinterpret_cast<sockaddr_un*>(&out.storage);
  name->sun_family = AF_UNIX;
  std::memcpy(name->sun_path, path.data(), path.size());
  out.size = offsetof(sockaddr_un, sun_path) + path.size() + 1;
  return std::vector<SocketAddress>{out};
}

// Splits "host:port" or "[v6]:port".
absl::StatusOr<std::pair<std::string, int>> Split(const std::string& address) {
  absl::string_view host = address;
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == std::string::npos) return Wrong(address, kForm);
  const absl::string_view digits = host.substr(colon + 1);
  host = host.substr(0, colon);
  if (digits.find_first_not_of("0123456789") != absl::string_view::npos || !absl::SimpleAtoi(digits, &port)) {
    return Wrong(address, kForm);
  }
  if (port > 65535) return Wrong(address, "the port must be 0 to 65535");
  const bool bracketed = absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]");
  const bool form = bracketed ? host.find_first_of("[],") == absl::string_view::npos
                              : host.find_first_of("[],: \t+") == absl::string_view::npos;
  if (host.empty() || !form) return Wrong(address, kForm);
  return std::pair(std::string(host), port);
}

void SetPort(int port, SocketAddress& address) {
  if (address.storage.ss_family == AF_INET6) reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_port = htons(port);
  if (address.storage.ss_family == AF_INET) reinterpret_cast<sockaddr_in*>(&address.storage)->sin_port = htons(port);
}

int Port(const SocketAddress& address) {
  if (address.storage.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_port);
  }
  return address.is_unix() ? 0 : ntohs(reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_port);
}

// Converts errno of a failed bind or listen.
absl::Status CannotListen(const SocketAddress& address) {
  const int error = errno;
  const std::string where = address.ToString();
  switch (error) {
    case EADDRINUSE:
      return absl::UnavailableError(absl::StrCat(where, " is in use by another process"));
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
      return absl::FailedPreconditionError(absl::StrCat(where, " is not an address of this machine"));
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(absl::StrCat(where, ": this user has no permission to listen there"));
    default:
      return absl::UnavailableError(absl::StrCat(where, ": cannot listen: ", std::strerror(error)));
  }
}

// Removes a socket that a dead process left. The socket of a live process accepts a connection.
absl::Status RemoveDeadSocket(const SocketAddress& address, const char* path) {
  struct stat info;
  if (lstat(path, &info) != 0) return errno == ENOENT ? absl::OkStatus() : CannotListen(address);
  if (!S_ISSOCK(info.st_mode)) {
    return absl::UnavailableError(absl::StrCat(address.ToString(), ": the path exists and is not a socket"));
  }
  const FileDescriptor probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe.ok()) return CannotListen(address);
  if (connect(probe.get(), address.get(), address.size) == 0 || errno == EAGAIN) {
    errno = EADDRINUSE;
    return CannotListen(address);
  }
  if (errno == ECONNREFUSED && unlink(path) == 0) return absl::OkStatus();
  return CannotListen(address);
}

}  // namespace

std::string SocketAddress::Host() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (is_unix()) return "unix:";
  if (storage.ss_family == AF_INET) {
    return inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr, text, sizeof(text));
  }
  const in6_addr& bytes = reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&bytes)) return inet_ntop(AF_INET, &bytes.s6_addr[12], text, sizeof(text));
  return absl::StrCat("[", inet_ntop(AF_INET6, &bytes, text, sizeof(text)), "]");
}

std::string SocketAddress::ToString() const {
  if (!is_unix()) return absl::StrCat(Host(), ":", Port(*this));
  const auto* name = reinterpret_cast<const sockaddr_un*>(&storage);
  const size_t bytes = size > offsetof(sockaddr_un, sun_path) ? size - offsetof(sockaddr_un, sun_path) : 0;
  return absl::StrCat("unix:", std::string(name->sun_path, strnlen(name->sun_path, bytes)));
}

bool SocketAddress::IsLocal() const {
  if (is_unix()) return true;
  if (storage.ss_family == AF_INET) {
    return ntohl(reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  const in6_addr& bytes = reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&bytes)) return bytes.s6_addr[12] == IN_LOOPBACKNET;
  return IN6_IS_ADDR_LOOPBACK(&bytes);
}

absl::StatusOr<std::vector<SocketAddress>> ResolveListenAddress(const std::string& address) {
  absl::string_view path = address;
  if (absl::ConsumePrefix(&path, "unix:")) return UnixAddress(address, path);
  KINORA_ASSIGN_OR_RETURN(const auto host_and_port, Split(address));
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host_and_port.first.c_str(), nullptr, &hints, &found);
  if (error != 0) return Wrong(address, absl::StrCat("cannot resolve the host: ", gai_strerror(error)));
  std::vector<SocketAddress> out;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
    SocketAddress& next = out.emplace_back();
    std::memcpy(&next.storage, one->ai_addr, one->ai_addrlen);
    next.size = one->ai_addrlen;
    SetPort(host_and_port.second, next);
  }
  freeaddrinfo(found);
  if (out.empty()) return Wrong(address, "the host has no IPv4 or IPv6 address");
  return out;
}

ListeningSockets& ListeningSockets::operator=(ListeningSockets&& other) noexcept {
  Close();
  sockets_ = std::move(other.sockets_);
  port_ = other.port_;
  path_ = std::exchange(other.path_, "");
  inode_ = other.inode_;
  return *this;
}

void ListeningSockets::Close() {
  sockets_.clear();
  struct stat info;
  if (!path_.empty() && lstat(path_.c_str(), &info) == 0 && info.st_ino == inode_) unlink(path_.c_str());
  path_.clear();
}

absl::Status ListeningSockets::AddUnix(const SocketAddress& address) {
  const char* path = reinterpret_cast<const sockaddr_un*>(&address.storage)->sun_path;
  KINORA_RETURN_IF_ERROR(RemoveDeadSocket(address, path));
  FileDescriptor listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // Linux creates the file with the socket's own mode minus the umask, so it is never wider than 0600. chmod restores
  // bits that an unusual umask removed.
  if (!listener.ok() || fchmod(listener.get(), 0600) != 0 || bind(listener.get(), address.get(), address.size) != 0) {
    return CannotListen(address);
  }
  struct stat info;
  if (chmod(path, 0600) != 0 || lstat(path, &info) != 0) return CannotListen(address);
  path_ = path;
  inode_ = info.st_ino;
  if (listen(listener.get(), kBacklog) != 0) return CannotListen(address);
  sockets_.push_back(std::move(listener));
  return absl::OkStatus();
}

absl::Status ListeningSockets::Add(const SocketAddress& wanted) {
  if (wanted.is_unix()) return AddUnix(wanted);
  SocketAddress address = wanted;
  if (port_ != 0) SetPort(port_, address);
  FileDescriptor listener(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  // SO_REUSEADDR without SO_REUSEPORT: a restart need not wait for old connections, but a second server on the port
  // fails.
  if (!listener.ok() || setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      setsockopt(listener.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0) {
    return CannotListen(address);
  }
  if (address.storage.ss_family == AF_INET6) {
    const auto& bytes = reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr;
    const int only = IN6_IS_ADDR_UNSPECIFIED(&bytes) || IN6_IS_ADDR_V4MAPPED(&bytes) ? 0 : 1;
    (void)setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only));
  }
  if (bind(listener.get(), address.get(), address.size) != 0 || listen(listener.get(), kBacklog) != 0) {
    return CannotListen(address);
  }
  address.size = sizeof(address.storage);
  if (getsockname(listener.get(), address.get(), &address.size) != 0) return CannotListen(address);
  port_ = Port(address);
  sockets_.push_back(std::move(listener));
  return absl::OkStatus();
}

absl::StatusOr<ListeningSockets> ListeningSockets::Bind(const std::string& field, const std::string& address,
                                                        bool local_only) {
  const auto named = [&](const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat(field, ": ", std::string(status.message())));
  };
  const auto addresses = ResolveListenAddress(address);
  if (!addresses.ok()) return named(addresses.status());
  for (const SocketAddress& one : *addresses) {
    if (local_only && !one.IsLocal()) {
      return named(Wrong(address, absl::StrCat("is ", one.Host(), ", which is not loopback")));
    }
  }
  const bool draw = !addresses->front().is_unix() && Port(addresses->front()) == 0;
  for (int i = 0;; ++i) {
    ListeningSockets bound;
    absl::Status status;
    absl::Status absent;  // "localhost" resolves to ::1 even on machines without IPv6
    for (const SocketAddress& one : *addresses) {
      const absl::Status added = bound.Add(one);
      (absl::IsFailedPrecondition(added) ? absent : status).Update(added);
    }
    if (status.ok() && bound.sockets_.empty()) status = absent;
    if (status.ok()) return bound;
    if (!draw || bound.sockets_.empty() || i == kPortDraws) return named(status);
  }
}

absl::StatusOr<ListeningSockets> ListeningSockets::Inherit(const std::string& field,
                                                           const std::vector<int>& descriptors) {
  ListeningSockets inherited;
  for (const int fd : descriptors) {
    int listens = 0;
    socklen_t size = sizeof(listens);
    SocketAddress address;
    address.size = sizeof(address.storage);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0 ||
        getsockname(fd, address.get(), &address.size) != 0) {
      return absl::InvalidArgumentError(absl::StrCat(field, ": ", fd, " is not a listening socket"));
    }
    fcntl(fd, F_SETFD, FD_CLOEXEC);  // it is non-blocking already, with the process that bound it
    inherited.sockets_.emplace_back(fd);
    inherited.port_ = Port(address);
  }
  return inherited;
}

}  // namespace kinora
