#include "server/net/connection_acceptor.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/common/file_error.h"

namespace kinora {
namespace {

constexpr absl::Duration kBetweenLooks = absl::Milliseconds(20);
// Pause when descriptors or memory run out, and between two checks for closed connections.
constexpr absl::Duration kPause = absl::Milliseconds(100);
constexpr absl::Duration kBetweenNotices = absl::Seconds(10);
constexpr int kAcceptsAtOnce = 64;  // then other events have their turn
// Data of an epoll event: a connection's id, or one of these.
constexpr uint64_t kWake = 1ull << 63;
constexpr uint64_t kListener = 1ull << 62;  // with the listener's index

FileDescriptor OpenReserve() { return FileDescriptor(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

SocketAddress NameOf(int fd, int (*ask)(int, sockaddr*, socklen_t*)) {
  SocketAddress out;
  out.size = sizeof(out.storage);
  if (ask(fd, out.get(), &out.size) != 0) out.size = 0;
  return out;
}

// Identifies a client's end of a connection: while it is open, the kernel gives its port or name to no other.
std::string ClientName(const SocketAddress& address) {
  if (address.is_unix()) return std::string(reinterpret_cast<const char*>(&address.storage), address.size);
  const bool six = address.storage.ss_family == AF_INET6;
  return absl::StrCat(six ? reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_port
                          : reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_port);
}

bool OfThisUser(int fd) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && (peer.uid == geteuid() || peer.uid == 0);
}

// Shuts down both directions and discards what has arrived, so that the server reads no more of it.
void Cut(int fd) {
  shutdown(fd, SHUT_RDWR);
  std::array<char, 1 << 14> unread;
  while (recv(fd, unread.data(), unread.size(), MSG_DONTWAIT) > 0) continue;
}

// Returns the address to connect to: loopback in place of a wildcard address.
SocketAddress Reachable(SocketAddress address) {
  if (address.storage.ss_family == AF_INET) {
    auto& bytes = reinterpret_cast<sockaddr_in*>(&address.storage)->sin_addr;
    if (bytes.s_addr == htonl(INADDR_ANY)) bytes.s_addr = htonl(INADDR_LOOPBACK);
  } else if (address.storage.ss_family == AF_INET6) {
    auto& bytes = reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_addr;
    if (IN6_IS_ADDR_UNSPECIFIED(&bytes)) bytes = in6addr_loopback;
  }
  return address;
}

}  // namespace

const char* RejectReasonName(ConnectionAcceptor::RejectReason reason) {
  switch (reason) {
    case ConnectionAcceptor::RejectReason::kFull:
      return "full";
    case ConnectionAcceptor::RejectReason::kForeignUser:
      return "foreign_user";
    case ConnectionAcceptor::RejectReason::kNoDescriptors:
      return "no_descriptors";
    case ConnectionAcceptor::RejectReason::kOverdone:
      return "overdone";
  }
  return "";
}

absl::StatusOr<std::unique_ptr<ConnectionAcceptor>> ConnectionAcceptor::Bind(Options options) {
  std::unique_ptr<ConnectionAcceptor> acceptor(new ConnectionAcceptor(std::move(options)));
  const Options& set = acceptor->options_;
  KINORA_ASSIGN_OR_RETURN(acceptor->listening_, ListeningSockets::Bind(set.field, set.address, set.local_only));
  acceptor->port_ = acceptor->listening_.port();
  acceptor->epoll_ = FileDescriptor(epoll_create1(EPOLL_CLOEXEC));
  acceptor->wake_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  acceptor->reserve_ = OpenReserve();
  epoll_event wake = {.events = EPOLLIN, .data = {.u64 = kWake}};
  if (!acceptor->epoll_.ok() || !acceptor->wake_.ok() || !acceptor->reserve_.ok() ||
      epoll_ctl(acceptor->epoll_.get(), EPOLL_CTL_ADD, acceptor->wake_.get(), &wake) != 0) {
    return FileError(set.field, "watch its connections");
  }
  acceptor->Listen(true);
  return acceptor;
}

void ConnectionAcceptor::Start() {
  thread_ = std::thread([this] { Run(); });
}

void ConnectionAcceptor::Stop() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    (void)!write(wake_.get(), &one, sizeof(one));
    thread_.join();
  }
  listening_.Close();
  open_.clear();
  closing_.clear();
  CountOpen();
}

void ConnectionAcceptor::Listen(bool on) {
  paused_ = !on;
  const auto& sockets = listening_.sockets();
  for (size_t i = 0; i < sockets.size(); ++i) {
    epoll_event event = {.events = EPOLLIN, .data = {.u64 = kListener | i}};
    epoll_ctl(epoll_.get(), on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, sockets[i].get(), &event);
  }
}

void ConnectionAcceptor::Watch(int operation, uint64_t id, const Open& open) {
  const bool look = options_.overdone && !open.connection.own && !open.connection.peer.is_unix();
  epoll_event event = {.events = EPOLLONESHOT | (look ? EPOLLIN : 0u), .data = {.u64 = id}};
  epoll_ctl(epoll_.get(), operation, open.twin.get(), &event);
}

void ConnectionAcceptor::CountOpen() {
  if (options_.count) options_.count(static_cast<int>(open_.size() + closing_.size()));
}

int ConnectionAcceptor::MillisecondsToNextTask() const {
  absl::Time next = absl::InfiniteFuture();
  if (paused_) next = paused_until_;
  if (!to_look_.empty()) next = std::min(next, to_look_.front().first);
  if (!closing_.empty()) next = std::min(next, options_.steady.Now() + kPause);
  if (next == absl::InfiniteFuture()) return -1;
  const absl::Duration left = absl::Ceil(next - options_.steady.Now(), absl::Milliseconds(1));
  return static_cast<int>(std::max<int64_t>(absl::ToInt64Milliseconds(left), 0));
}

void ConnectionAcceptor::RunTasks() {
  const absl::Time now = options_.steady.Now();
  if (paused_ && now >= paused_until_) {
    if (!reserve_.ok()) reserve_ = OpenReserve();
    Listen(true);
  }
  while (!to_look_.empty() && to_look_.front().first <= now) {
    const uint64_t id = to_look_.front().second;
    to_look_.pop_front();
    Look(id);
  }
  ForgetClosed();
}

void ConnectionAcceptor::Run() {
  std::array<epoll_event, 64> events;
  while (true) {
    const int count = epoll_wait(epoll_.get(), events.data(), events.size(), MillisecondsToNextTask());
    for (int i = 0; i < count; ++i) {
      const uint64_t about = events[i].data.u64;
      if (about == kWake) return;
      if ((about & kListener) != 0) {
        Accept(listening_.sockets()[about & ~kListener].get());
      } else {
        OnEvent(about, events[i].events);
      }
    }
    RunTasks();
  }
}

void ConnectionAcceptor::Accept(int listener) {
  for (int i = 0; i < kAcceptsAtOnce && !paused_; ++i) {
    SocketAddress peer;
    peer.size = sizeof(peer.storage);
    FileDescriptor accepted(accept4(listener, peer.get(), &peer.size, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (accepted.ok()) {
      Admit(std::move(accepted), peer);
    } else if (errno == EAGAIN) {
      return;
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      if (!SurviveFailedAccept(listener, errno)) return;
    }  // otherwise the connection ended before it was accepted
  }
}

bool ConnectionAcceptor::SurviveFailedAccept(int listener, int error) {
  bool taken = false;
  if (error == EMFILE || error == ENFILE) {
    reserve_ = FileDescriptor();
    SocketAddress peer;
    peer.size = sizeof(peer.storage);
    taken = FileDescriptor(accept4(listener, peer.get(), &peer.size, SOCK_CLOEXEC | SOCK_NONBLOCK)).ok();
    const bool nobody_waits = !taken && errno == EAGAIN;  // Linux needs a descriptor even if no connection waits
    reserve_ = OpenReserve();
    if (taken) Reject(RejectReason::kNoDescriptors, peer);
    if (nobody_waits && reserve_.ok()) return false;
  }
  if (taken && reserve_.ok()) return true;
  paused_until_ = options_.steady.Now() + kPause;
  Listen(false);
  return false;
}

bool ConnectionAcceptor::IsOwn(const FileDescriptor& accepted, const SocketAddress& peer) {
  if (!peer.is_unix() && NameOf(accepted.get(), getsockname).Host() != peer.Host()) return false;
  absl::MutexLock lock(&mu_);
  const bool own = !own_.empty() && own_ == ClientName(peer);
  if (own) own_.clear();
  return own;
}

void ConnectionAcceptor::Admit(FileDescriptor accepted, const SocketAddress& peer) {
  if (peer.is_unix() && !OfThisUser(accepted.get())) return Reject(RejectReason::kForeignUser, peer);
  const bool own = IsOwn(accepted, peer);
  if (!own) {
    ForgetClosed();
    if (open_.size() + closing_.size() >= static_cast<size_t>(options_.max_connections)) {
      return Reject(RejectReason::kFull, peer);
    }
  }
  Open open;
  open.twin = FileDescriptor(fcntl(accepted.get(), F_DUPFD_CLOEXEC, 0));
  struct stat info;
  if (!open.twin.ok() || fstat(accepted.get(), &info) != 0) return Reject(RejectReason::kNoDescriptors, peer);
  open.inode = info.st_ino;
  const uint64_t id = ++last_id_;
  open.connection = {.fd = accepted.Release(), .peer = peer, .own = own, .id = id};
  const Connection connection = open.connection;
  Watch(EPOLL_CTL_ADD, id, open);
  open_.emplace(id, std::move(open));
  CountOpen();
  options_.take(connection);
}

void ConnectionAcceptor::OnEvent(uint64_t id, uint32_t events) {
  const auto found = open_.find(id);
  if (found == open_.end()) return;
  if ((events & (EPOLLHUP | EPOLLERR)) == 0) {
    to_look_.emplace_back(options_.steady.Now() + kBetweenLooks, id);
    return;
  }
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second.twin.get(), nullptr);
  closing_.insert(open_.extract(found));
}

void ConnectionAcceptor::Look(uint64_t id) {
  const auto found = open_.find(id);
  if (found == open_.end()) return;
  if (options_.overdone(found->second.connection)) {
    Cut(found->second.twin.get());
    Reject(RejectReason::kOverdone, found->second.connection.peer);
  }
  Watch(EPOLL_CTL_MOD, id, found->second);
}

// Forgets ended connections that the server has closed. The twin keeps the socket's inode in use, so the server holds
// the socket exactly while `fd` still has that inode.
void ConnectionAcceptor::ForgetClosed() {
  const size_t before = closing_.size();
  for (auto one = closing_.begin(); one != closing_.end();) {
    struct stat info;
    const bool held = fstat(one->second.connection.fd, &info) == 0 && info.st_ino == one->second.inode;
    if (!held && options_.closed) options_.closed(one->first);
    one = held ? std::next(one) : closing_.erase(one);
  }
  if (closing_.size() != before) CountOpen();
}

void ConnectionAcceptor::Reject(RejectReason why, const SocketAddress& peer) {
  if (options_.refused) options_.refused(why);
  Notice& notice = notices_[why];
  notice.since += 1;
  if (options_.steady.Now() < notice.next) return;
  Log(Severity::kWarning, "connections_refused",
      {{"field", options_.field},
       {"reason", RejectReasonName(why)},
       {"count", notice.since},
       {"last_peer", peer.ToString()}});
  notice = {.next = options_.steady.Now() + kBetweenNotices, .since = 0};
}

absl::StatusOr<FileDescriptor> ConnectionAcceptor::ConnectToSelf(absl::Duration patience) {
  const SocketAddress to = Reachable(NameOf(listening_.sockets().front().get(), getsockname));
  SocketAddress from;
  from.storage.ss_family = to.storage.ss_family;
  from.size = to.is_unix() ? sizeof(sa_family_t) : to.size;  // any address and port, or a name that the kernel picks
  FileDescriptor fd(socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.ok() || bind(fd.get(), from.get(), from.size) != 0) return FileError(options_.field, "connect to itself");
  {
    absl::MutexLock lock(&mu_);
    own_ = ClientName(NameOf(fd.get(), getsockname));
  }
  bool connected = connect(fd.get(), to.get(), to.size) == 0;
  if (!connected && errno == EINPROGRESS) {
    pollfd ready = {.fd = fd.get(), .events = POLLOUT, .revents = 0};
    int error = ETIMEDOUT;
    socklen_t size = sizeof(error);
    if (poll(&ready, 1, static_cast<int>(absl::ToInt64Milliseconds(patience))) == 1) {
      getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    }
    connected = error == 0;
    errno = error;
  }
  if (connected) return fd;
  const absl::Status status = FileError(options_.field, "connect to itself");
  absl::MutexLock lock(&mu_);
  own_.clear();
  return status;
}

}  // namespace kinora
