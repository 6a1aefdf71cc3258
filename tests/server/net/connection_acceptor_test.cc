#include "server/net/connection_acceptor.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using Connection = ConnectionAcceptor::Connection;
using RejectReason = ConnectionAcceptor::RejectReason;

// Records what an acceptor hands over and counts.
class Acceptor {
 public:
  explicit Acceptor(ConnectionAcceptor::Options options) {
    options.field = "address";
    options.take = [this](const Connection& connection) {
      absl::MutexLock lock(&mu_);
      taken_.push_back(connection);
    };
    options.refused = [this](RejectReason why) {
      absl::MutexLock lock(&mu_);
      refused_[why] += 1;
    };
    options.count = [this](int open) {
      absl::MutexLock lock(&mu_);
      open_ = open;
    };
    auto bound = ConnectionAcceptor::Bind(std::move(options));
    KINORA_CHECK(bound.ok()) << bound.status();
    acceptor_ = *std::move(bound);
    acceptor_->Start();
  }

  ~Acceptor() {
    acceptor_->Stop();
    for (size_t i = 0; i < taken_.size(); ++i) Close(i);
  }

  ConnectionAcceptor& operator*() { return *acceptor_; }
  void Close(size_t index) {
    absl::MutexLock lock(&mu_);
    const int fd = std::exchange(taken_[index].fd, -1);
    if (fd < 0) return;
    shutdown(fd, SHUT_RDWR);
    close(fd);
  }
  Connection Taken(size_t index) {
    Await([&] { return taken_.size() > index; });
    absl::MutexLock lock(&mu_);
    return taken_[index];
  }
  void AwaitOpen(int open) {
    Await([&] { return open_ == open; });
  }
  void AwaitRefused(RejectReason why, int count) {
    Await([&] { return refused_[why] >= count; });
  }
  std::map<RejectReason, int> Refused() {
    absl::MutexLock lock(&mu_);
    return refused_;
  }

 private:
  template <typename Condition>
  void Await(Condition condition) {
    absl::MutexLock lock(&mu_);
    KINORA_CHECK(mu_.AwaitWithTimeout(absl::Condition(&condition), absl::Seconds(30)));
  }

  absl::Mutex mu_;
  std::vector<Connection> taken_;
  std::map<RejectReason, int> refused_;
  int open_ = 0;
  std::unique_ptr<ConnectionAcceptor> acceptor_;
};

FileDescriptor Socket(int family = AF_INET) {
  FileDescriptor fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval patience{.tv_sec = 30, .tv_usec = 0};
  KINORA_CHECK(setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0);
  return fd;
}

SocketAddress Loopback(int port) { return ResolveListenAddress(absl::StrCat("127.0.0.1:", port))->front(); }

FileDescriptor Connect(const SocketAddress& address) {
  FileDescriptor fd = Socket(address.storage.ss_family);
  KINORA_CHECK(connect(fd.get(), address.get(), address.size) == 0);
  return fd;
}

// Waits until the peer closes or resets the connection. Returns false if data arrives.
bool Ends(const FileDescriptor& fd) {
  char byte;
  const ssize_t count = recv(fd.get(), &byte, 1, 0);
  return count == 0 || (count < 0 && errno == ECONNRESET);
}

TEST(ConnectionAcceptor, MoreThanItsLimitAreClosedAndAPlaceIsFreeOnceWhoTookItCloses) {
  Acceptor acceptor({.address = "127.0.0.1:0", .max_connections = 2});
  const SocketAddress address = Loopback((*acceptor).port());
  const FileDescriptor first = Connect(address), second = Connect(address);
  acceptor.Taken(1);
  EXPECT_TRUE(Ends(Connect(address)));
  EXPECT_EQ(acceptor.Refused(), (std::map<RejectReason, int>{{RejectReason::kFull, 1}}));

  // The client is gone but the server has not noticed, so the connection still counts.
  shutdown(second.get(), SHUT_RDWR);
  EXPECT_TRUE(Ends(Connect(address)));
  shutdown(acceptor.Taken(1).fd, SHUT_RDWR);
  EXPECT_TRUE(Ends(Connect(address)));
  acceptor.Close(1);
  acceptor.AwaitOpen(1);
  const FileDescriptor third = Connect(address);
  EXPECT_EQ(write(acceptor.Taken(2).fd, "x", 1), 1);
  EXPECT_FALSE(Ends(third));
}

TEST(ConnectionAcceptor, ItsOwnConnectionIsKnownAndCountsForNoLimit) {
  TemporaryDirectory directory;
  for (const std::string& address :
       {std::string("127.0.0.1:0"), std::string("[::1]:0"), absl::StrCat("unix:", directory.File("a.sock"))}) {
    Acceptor acceptor({.address = address, .max_connections = 1});
    SocketAddress reachable = ResolveListenAddress(address)->front();
    if (!reachable.is_unix()) {
      reachable =
          ResolveListenAddress(absl::StrCat(address.substr(0, address.size() - 1), (*acceptor).port()))->front();
    }
    const FileDescriptor other = Connect(reachable);
    EXPECT_FALSE(acceptor.Taken(0).own) << address;
    KINORA_ASSERT_OK_AND_ASSIGN(const auto own, (*acceptor).ConnectToSelf(absl::Seconds(10)));
    EXPECT_TRUE(acceptor.Taken(1).own) << address;
  }
}

TEST(ConnectionAcceptor, CutsTheOneThatIsOverdone) {
  Acceptor acceptor({.address = "127.0.0.1:0", .max_connections = 2, .overdone = [](const Connection& connection) {
                       char bytes[16];
                       return recv(connection.fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT) == 16;
                     }});
  const SocketAddress address = Loopback((*acceptor).port());
  const FileDescriptor quiet = Connect(address), loud = Connect(address);
  ASSERT_EQ(write(quiet.get(), "0123", 4), 4);
  ASSERT_EQ(write(loud.get(), "0123456789012345", 16), 16);
  EXPECT_TRUE(Ends(loud));
  char bytes[16];
  acceptor.AwaitRefused(RejectReason::kOverdone, 1);
  EXPECT_EQ(recv(acceptor.Taken(1).fd, bytes, sizeof(bytes), MSG_DONTWAIT), 0);  // unread data was discarded
  EXPECT_EQ(recv(acceptor.Taken(0).fd, bytes, sizeof(bytes), MSG_DONTWAIT), 4);
}

// gRPC's own listener accepts nothing more after one accept that failed because no descriptor was free.
TEST(ConnectionAcceptor, ALackOfDescriptorsEndsWithIt) {
  Acceptor acceptor({.address = "127.0.0.1:0", .max_connections = 100});
  const SocketAddress address = Loopback((*acceptor).port());
  std::vector<FileDescriptor> clients(20);
  for (FileDescriptor& client : clients) client = Socket();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const FileDescriptor next_free(fcntl(clients[0].get(), F_DUPFD_CLOEXEC, 0));
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(next_free.get()) + 1;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  for (const FileDescriptor& client : clients) {
    EXPECT_EQ(connect(client.get(), address.get(), address.size), 0);
    EXPECT_TRUE(Ends(client));
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  acceptor.AwaitRefused(RejectReason::kNoDescriptors, 20);
  const FileDescriptor client = Connect(address);
  EXPECT_EQ(write(acceptor.Taken(0).fd, "x", 1), 1);
  EXPECT_FALSE(Ends(client));
}

// The socket's mode keeps other users out. If the mode is changed, their connections are still closed.
TEST(ConnectionAcceptor, AUnixSocketTakesItsOwnUserAndRootAlone) {
  if (geteuid() != 0) GTEST_SKIP() << "root alone can be somebody else";
  TemporaryDirectory directory;
  const std::string path = directory.File("a.sock");
  Acceptor acceptor({.address = absl::StrCat("unix:", path), .max_connections = 2});
  ASSERT_EQ(chmod(directory.path().c_str(), 0755), 0);
  const SocketAddress address = ResolveListenAddress(absl::StrCat("unix:", path))->front();
  const auto as_nobody = [&] {  // 0: connected, then closed; 1: not allowed to connect
    const pid_t child = fork();
    if (child == 0) {
      const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
      char byte;
      if (setuid(65534) != 0) _exit(2);
      if (connect(fd, address.get(), address.size) != 0) _exit(errno == EACCES ? 1 : 3);
      _exit(read(fd, &byte, 1) == 0 ? 0 : 4);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(as_nobody(), 1);
  ASSERT_EQ(chmod(path.c_str(), 0777), 0);
  EXPECT_EQ(as_nobody(), 0);
  EXPECT_EQ(acceptor.Refused(), (std::map<RejectReason, int>{{RejectReason::kForeignUser, 1}}));
  const FileDescriptor own = Connect(address);
  acceptor.Taken(0);
}

}  // namespace
}  // namespace kinora
