#include "tests/e2e/process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/check.h"
#include "engine/base/uninterrupted.h"

extern char** environ;

namespace kinora {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(2);

}  // namespace

Process::Process(const std::vector<std::string>& arguments) {
  int out[2], err[2];
  KINORA_CHECK(pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  KINORA_CHECK_EQ(posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ), 0) << argv[0];
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]);
  close(err[1]);
  readers_[0] = std::thread([this, fd = out[0]] { Collect(fd, out_); });
  readers_[1] = std::thread([this, fd = err[0]] { Collect(fd, err_); });
}

Process::~Process() {
  if (!waited_) {
    Signal(SIGKILL);
    Wait();
  }
  for (std::thread& reader : readers_) {
    if (reader.joinable()) reader.join();
  }
}

void Process::Collect(int fd, std::string& whole) {
  char buffer[4096];
  ssize_t n;
  while ((n = read(fd, buffer, sizeof(buffer))) > 0) {
    absl::MutexLock lock(&mu_);
    whole.append(buffer, n);
  }
  close(fd);
  absl::MutexLock lock(&mu_);
  --open_streams_;
}

std::string Process::AwaitLine(const std::string& text) {
  std::string line;
  const auto find = [&](const std::string& whole) {
    const size_t at = whole.find(text);
    if (at == std::string::npos) return false;
    const size_t end = whole.find('\n', at);
    if (end == std::string::npos) return false;
    const size_t begin = whole.rfind('\n', at);
    line = whole.substr(begin == std::string::npos ? 0 : begin + 1, end - (begin == std::string::npos ? 0 : begin + 1));
    return true;
  };
  const auto found = [&] {
    mu_.AssertHeld();
    return find(out_) || find(err_) || open_streams_ == 0;
  };
  absl::MutexLock lock(&mu_);
  mu_.AwaitWithTimeout(absl::Condition(&found), kPatience);
  return line;
}

bool Process::AwaitEndOfOutput() {
  const auto ended = [this] {
    mu_.AssertHeld();
    return open_streams_ == 0;
  };
  absl::MutexLock lock(&mu_);
  return mu_.AwaitWithTimeout(absl::Condition(&ended), kPatience);
}

void Process::Signal(int signal) const { kill(pid_, signal); }

int Process::Wait() {
  if (waited_) return status_;
  int status = 0;
  Uninterrupted([&] { return waitpid(pid_, &status, 0); });
  waited_ = true;
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return status_;
}

std::string Process::Out() const {
  absl::MutexLock lock(&mu_);
  return out_;
}

std::string Process::Err() const {
  absl::MutexLock lock(&mu_);
  return err_;
}

Result RunToEnd(const std::vector<std::string>& arguments) {
  Process process(arguments);
  Result result;
  result.status = process.Wait();
  process.AwaitEndOfOutput();
  result.out = process.Out();
  result.err = process.Err();
  return result;
}

}  // namespace kinora
