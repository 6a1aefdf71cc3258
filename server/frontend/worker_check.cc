#include "server/frontend/worker_check.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/file_descriptor.h"
#include "server/common/config.h"
#include "server/common/status_details.h"

extern char** environ;

namespace kinora {
namespace {

std::string ReadAll(int fd) {
  std::string text;
  char buffer[4096];
  ssize_t n;
  while ((n = read(fd, buffer, sizeof(buffer))) > 0 || (n < 0 && errno == EINTR)) {
    if (n > 0) text.append(buffer, static_cast<size_t>(n));
  }
  return text;
}

// What a program says on its standard error before it ends, unless it ends with status 0: then "".
std::string Complaint(const std::string& binary, const std::vector<std::string>& arguments) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::StrCat("pipe: ", std::strerror(errno));
  const FileDescriptor read_end(ends[0]);
  FileDescriptor write_end(ends[1]);
  std::vector<char*> argv = {const_cast<char*>(binary.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), 2);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, binary.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return absl::StrCat(binary, ": ", std::strerror(error));
  write_end = FileDescriptor();
  std::string said = ReadAll(read_end.get());
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  absl::StripAsciiWhitespace(&said);
  if (said.empty()) said = absl::StrCat("it ended with status ", status, " and said nothing");
  return std::string(absl::StripPrefix(said, "kinora-worker: "));
}

std::string FieldOf(const v1::FrontendConfig& config, const std::string& group) {
  for (int i = 0; i < config.groups_size(); ++i) {
    if (config.groups(i).id() == group) return absl::StrCat("groups[", i, "].worker");
  }
  return "worker";
}

}  // namespace

absl::Status CheckWorkers(const v1::FrontendConfig& config) {
  std::vector<FieldViolation> problems;
  for (const v1::GroupConfig& group : GroupsOf(config)) {
    v1::WorkerConfig worker = group.worker();
    worker.set_frontend(absl::StrCat("unix:", config.state_directory(), "/worker.sock"));
    worker.set_world_size(group.processes());
    std::vector<std::string> arguments = ToFlags(worker);
    arguments.emplace_back("--check-config");
    const std::string why = Complaint(config.worker_binary(), arguments);
    if (!why.empty()) problems.push_back({FieldOf(config, group.id()), why});
  }
  return problems.empty() ? absl::OkStatus() : InvalidFields(problems);
}

}  // namespace kinora
