// A file system of a few hundred kilobytes, for tests of a full disk.
#ifndef KINORA_TESTS_TESTING_FULL_DISK_H_
#define KINORA_TESTS_TESTING_FULL_DISK_H_

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"

namespace kinora {

enum class SmallDiskResult { kPassed, kFailed, kNotPermitted };

// Runs `body` in a child process that sees a tmpfs of `bytes` at `path` (an empty directory). The child has its own
// mount namespace, so nothing needs cleaning up. `body` returns an error message, or "" if it succeeds. Returns
// kNotPermitted if the kernel does not allow user namespaces. Forks: call it before the test creates any thread.
inline SmallDiskResult OnSmallDisk(const std::string& path, int64_t bytes, const std::function<std::string()>& body) {
  constexpr int kNotPermitted = 77;
  const pid_t child = fork();
  if (child == 0) {
    const uid_t uid = getuid();
    const gid_t gid = getgid();
    if (unshare(CLONE_NEWNS) != 0) {
      if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) _exit(kNotPermitted);
      std::ofstream("/proc/self/setgroups") << "deny";
      std::ofstream("/proc/self/uid_map") << absl::StrCat("0 ", uid, " 1");
      std::ofstream("/proc/self/gid_map") << absl::StrCat("0 ", gid, " 1");
    }
    if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) _exit(kNotPermitted);
    const std::string options = absl::StrCat("mode=0700,size=", bytes);
    if (mount("tmpfs", path.c_str(), "tmpfs", 0, options.c_str()) != 0) _exit(kNotPermitted);
    std::string problem;
    try {
      problem = body();
    } catch (const std::exception& error) {  // catching it runs the destructors of body's objects
      problem = error.what();
    }
    if (!problem.empty()) std::fprintf(stderr, "on the small disk: %s\n", problem.c_str());
    std::fflush(stderr);
    _exit(problem.empty() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotPermitted) return SmallDiskResult::kNotPermitted;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? SmallDiskResult::kPassed : SmallDiskResult::kFailed;
}

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_FULL_DISK_H_
