#include "server/client/open_file.h"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace kinora {

absl::Status OpenFile(const std::string& path) {
  // Keeps a name that begins with "-" from being taken for an option.
  const std::string file = path.empty() || path[0] == '/' ? path : absl::StrCat("./", path);
  char program[] = "xdg-open";
  char* const arguments[] = {program, const_cast<char*>(file.c_str()), nullptr};
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);  // this process blocks and ignores some signals
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  // A viewer that stays open must not keep the caller's pipes open.
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child;
  const int error = posix_spawnp(&child, program, &actions, &attributes, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("--open: xdg-open cannot be started: ", std::strerror(error)));
}

}  // namespace kinora
