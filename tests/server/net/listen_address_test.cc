#include "server/net/listen_address.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "absl/strings/str_cat.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::HasSubstr;

absl::StatusOr<bool> Local(const std::string& address) {
  const auto resolved = ResolveListenAddress(address);
  if (!resolved.ok()) return resolved.status();
  for (const SocketAddress& one : *resolved) {
    if (!one.IsLocal()) return false;
  }
  return true;
}

TEST(ListenAddress, IsJudgedByItsBytes) {
  for (const char* text : {"127.0.0.1:1", "127.9.8.7:0", "[::1]:65535", "[::ffff:127.0.0.1]:1", "localhost:80",
                           "127.1:1", "2130706433:1", "unix:/tmp/a.sock"}) {
    EXPECT_THAT(Local(text), IsOkAndHolds(true)) << text;
  }
  for (const char* text : {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[::ffff:10.0.0.1]:1", "0:1", "128.0.0.1:1"}) {
    EXPECT_THAT(Local(text), IsOkAndHolds(false)) << text;
  }
}

TEST(ListenAddress, OneAddressWithAHostAndAPort) {
  for (const char* text :
       {"", "8480", ":8480", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:-1", "127.0.0.1:8480,0.0.0.0:8481",
        "127.0.0.1:8480+0.0.0.0:8481", "127.0.0.1:1 ", "::1:8480", "[::1:8480", "[::1],[::]:1", "unix:"}) {
    EXPECT_THAT(Local(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("host:port or unix:PATH"))) << text;
  }
  EXPECT_THAT(Local("127.0.0.1:65536"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("65535")));
  EXPECT_THAT(Local(absl::StrCat("unix:", std::string(108, 'p'))),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("107")));
  // The name is resolved, not trusted: no such host exists.
  EXPECT_THAT(Local("127.0.0.1.invalid:80"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cannot resolve")));
}

absl::Status BindStatus(const std::string& address, bool local_only = true) {
  return ListeningSockets::Bind("http_address", address, local_only).status();
}

TEST(ListeningSockets, SayWhatWasWrongAndForWhichField) {
  KINORA_ASSERT_OK_AND_ASSIGN(const auto first, ListeningSockets::Bind("a", "127.0.0.1:0", true));
  ASSERT_GT(first.port(), 0);
  const std::string taken = absl::StrCat("127.0.0.1:", first.port());
  EXPECT_THAT(BindStatus(taken), StatusIs(absl::StatusCode::kUnavailable,
                                          absl::StrCat("http_address: ", taken, " is in use by another process")));
  EXPECT_THAT(BindStatus("192.0.2.1:0", false),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not an address of this machine")));
  EXPECT_THAT(BindStatus("0.0.0.0:0"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not loopback")));
  EXPECT_THAT(BindStatus("unix:/nowhere/at/all.sock"), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("/nowhere")));
}

TEST(ListeningSockets, APortThatWasPickedIsThatOfEveryAddressOfTheName) {
  KINORA_ASSERT_OK_AND_ASSIGN(const auto bound, ListeningSockets::Bind("a", "localhost:0", true));
  for (const FileDescriptor& socket : bound.sockets()) {
    SocketAddress name;
    name.size = sizeof(name.storage);
    ASSERT_EQ(getsockname(socket.get(), name.get(), &name.size), 0);
    EXPECT_THAT(name.ToString(), testing::EndsWith(absl::StrCat(":", bound.port())));
  }
}

TEST(ListeningSockets, AUnixSocketIsForItsOwnerAloneWhateverTheUmask) {
  TemporaryDirectory directory;
  const std::string path = directory.File("a.sock");
  for (const mode_t mask : {0, 0077, 0777}) {
    const mode_t before = umask(mask);
    const auto bound = ListeningSockets::Bind("a", absl::StrCat("unix:", path), true);
    umask(before);
    ASSERT_THAT(bound, IsOk());
    struct stat info;
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0600u) << mask;
  }
  EXPECT_FALSE(std::filesystem::exists(path));  // removed with its socket
}

TEST(ListeningSockets, ReplaceADeadSocketAndNothingElse) {
  TemporaryDirectory directory;
  const std::string address = absl::StrCat("unix:", directory.File("a.sock"));
  KINORA_ASSERT_OK_AND_ASSIGN(auto living, ListeningSockets::Bind("a", address, true));
  EXPECT_THAT(BindStatus(address), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("in use")));
  living.Close();
  {
    const FileDescriptor dead(socket(AF_UNIX, SOCK_STREAM, 0));
    KINORA_ASSERT_OK_AND_ASSIGN(const auto name, ResolveListenAddress(address));
    ASSERT_EQ(bind(dead.get(), name[0].get(), name[0].size), 0);
  }
  EXPECT_THAT(BindStatus(address), IsOk());
  WriteFile(directory.File("a.sock"), "notes");
  EXPECT_THAT(BindStatus(address), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("not a socket")));
  EXPECT_EQ(ReadFile(directory.File("a.sock")), "notes");
}

TEST(ListeningSockets, AreInheritedWithTheirPort) {
  KINORA_ASSERT_OK_AND_ASSIGN(const auto bound, ListeningSockets::Bind("a", "localhost:0", true));
  std::vector<int> passed;
  for (const FileDescriptor& socket : bound.sockets()) passed.push_back(fcntl(socket.get(), F_DUPFD, 0));
  KINORA_ASSERT_OK_AND_ASSIGN(const auto inherited, ListeningSockets::Inherit("--listen-fd", passed));
  EXPECT_EQ(inherited.port(), bound.port());
  ASSERT_EQ(inherited.sockets().size(), passed.size());
  for (const FileDescriptor& socket : inherited.sockets()) {
    EXPECT_EQ(fcntl(socket.get(), F_GETFD), FD_CLOEXEC);
    EXPECT_NE(fcntl(socket.get(), F_GETFL) & O_NONBLOCK, 0);
  }
  const int other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  for (const int fd : {other, 9999}) {
    EXPECT_THAT(ListeningSockets::Inherit("--listen-fd", {fd}).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--listen-fd: ")));
  }
  close(other);
}

}  // namespace
}  // namespace kinora
