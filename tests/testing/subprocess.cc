#include "tests/testing/subprocess.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <iterator>

#include "engine/base/check.h"

namespace kinora {
namespace {

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string UniquePath(const char* what) {
  static std::atomic<int> next{0};
  return testing::TempDir() + "kinora_" + what + "_" + std::to_string(getpid()) + "_" + std::to_string(next++);
}

}  // namespace

Subprocess::Subprocess(const std::vector<std::string>& arguments)
    : out_path_(UniquePath("out")), err_path_(UniquePath("err")) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, out_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, err_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int failed = posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  KINORA_CHECK(failed == 0) << arguments[0];
}

Subprocess::~Subprocess() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  unlink(out_path_.c_str());
  unlink(err_path_.c_str());
}

std::string Subprocess::ErrSoFar() const { return ReadAll(err_path_); }

ProcessResult Subprocess::Wait() {
  int status = 0;
  KINORA_CHECK(waitpid(pid_, &status, 0) == pid_);
  pid_ = -1;
  return {.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          .out = ReadAll(out_path_),
          .err = ReadAll(err_path_)};
}

ProcessResult RunProcess(const std::vector<std::string>& arguments) { return Subprocess(arguments).Wait(); }

}  // namespace kinora
