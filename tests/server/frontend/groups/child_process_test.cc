#include "server/frontend/groups/child_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

TEST(ChildProcess, HasTheGivenDescriptorsInTheirOrderAndNoOthers) {
  TemporaryDirectory directory;
  std::vector<FileDescriptor> files;
  std::vector<int> given;
  for (const char* name : {"a", "b", "c"}) {
    files.emplace_back(open(directory.File(name).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    given.push_back(files.back().get());
  }
  std::swap(given[0], given[2]);  // so that a number in the child is the number of another one here
  const std::string script = "echo x >&5; echo y >&6; echo z >&7; [ -e /dev/fd/8 ] && exit 1; read s <&4; [ $s = s ]";
  KINORA_ASSERT_OK_AND_ASSIGN(const auto child, ChildProcess::Spawn("/bin/sh", {"-c", script}, "s\n", 0, given));
  EXPECT_EQ(child->Wait(), "exit status 0");
  EXPECT_EQ(ReadFile(directory.File("c")), "x\n");
  EXPECT_EQ(ReadFile(directory.File("b")), "y\n");
  EXPECT_EQ(ReadFile(directory.File("a")), "z\n");
}

TEST(ChildProcess, EndsBySigtermOrSigkill) {
  KINORA_ASSERT_OK_AND_ASSIGN(const auto polite, ChildProcess::Spawn("/bin/sh", {"-c", "kill -STOP $$"}, ""));
  polite->Terminate();
  kill(polite->pid(), SIGCONT);
  EXPECT_EQ(polite->Wait().substr(0, 19), "killed by signal 15");
  polite->Terminate();  // does nothing
  KINORA_ASSERT_OK_AND_ASSIGN(const auto killed, ChildProcess::Spawn("/bin/sh", {"-c", "kill -STOP $$"}, ""));
  killed->Kill();
  EXPECT_EQ(killed->Wait().substr(0, 18), "killed by signal 9");
}

}  // namespace
}  // namespace kinora
