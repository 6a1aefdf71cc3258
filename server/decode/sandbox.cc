#include "server/decode/sandbox.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <ctime>
#include <vector>

namespace kinora {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "seccomp's name of this architecture is needed"
#endif

// For the file and the two pipes, memory, the time and the exit. Codecs request the number of processors.
constexpr int kAllowed[] = {SYS_read,
                            SYS_pread64,
                            SYS_write,
                            SYS_lseek,
                            SYS_close,
                            SYS_munmap,
                            SYS_brk,
                            SYS_mremap,
                            SYS_madvise,
                            SYS_futex,
                            SYS_clock_gettime,
                            SYS_getrandom,
                            SYS_gettimeofday,
                            SYS_sched_getaffinity,
                            SYS_sched_yield,
                            SYS_rt_sigreturn,
                            SYS_rt_sigprocmask,
                            SYS_getpid,
                            SYS_gettid,
                            SYS_exit,
                            SYS_exit_group,
                            SYS_restart_syscall};
// Allowed unless they make memory executable.
constexpr int kAllowedWithoutExec[] = {SYS_mmap, SYS_mprotect};

constexpr uint32_t kArgument2 = offsetof(seccomp_data, args) + 2 * sizeof(uint64_t);  // `prot`; its lower half

sock_filter Load(uint32_t offset) { return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset); }
sock_filter Return(uint32_t action) { return BPF_STMT(BPF_RET | BPF_K, action); }
// Jumps over `skipped` instructions unless the accumulator is `value`.
sock_filter UnlessEqual(uint32_t value, uint8_t skipped) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skipped);
}

std::vector<sock_filter> Filter() {
  std::vector<sock_filter> filter = {Load(offsetof(seccomp_data, arch)),
                                     BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0),
                                     Return(SECCOMP_RET_KILL_PROCESS), Load(offsetof(seccomp_data, nr))};
  for (const int call : kAllowed) {
    filter.push_back(UnlessEqual(static_cast<uint32_t>(call), 1));
    filter.push_back(Return(SECCOMP_RET_ALLOW));
  }
  for (const int call : kAllowedWithoutExec) {
    filter.push_back(UnlessEqual(static_cast<uint32_t>(call), 4));
    filter.push_back(Load(kArgument2));
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 1, 0));
    filter.push_back(Return(SECCOMP_RET_ALLOW));
    filter.push_back(Return(SECCOMP_RET_KILL_PROCESS));
  }
  filter.push_back(Return(SECCOMP_RET_KILL_PROCESS));
  return filter;
}

bool Limit(int resource, int64_t value) {
  const rlimit limit{.rlim_cur = static_cast<rlim_t>(value), .rlim_max = static_cast<rlim_t>(value)};
  return setrlimit(static_cast<__rlimit_resource>(resource), &limit) == 0;
}

// Uses SIGKILL, which cannot be blocked or ignored. If the parent ended before this call, writing the first answer
// fails and ends the decoder.
absl::Status EndWithParentAndTime(int seconds) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return absl::ErrnoToStatus(errno, "prctl");
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  timer_t timer{};
  const itimerspec once{.it_interval = {}, .it_value = {.tv_sec = seconds, .tv_nsec = 0}};
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &once, nullptr) != 0) {
    return absl::ErrnoToStatus(errno, "timer");
  }
  return absl::OkStatus();
}

// If the kernel allows it, lets it end this process rather than the worker that holds the model.
void EndFirstWithoutMemory() {
  const int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  [[maybe_unused]] const ssize_t written = write(file, "1000", 4);
  close(file);
}

}  // namespace

absl::Status EnterSandbox(const SandboxLimits& limits) {
  tzset();  // reads its file now; libraries that use the date would read it later
  EndFirstWithoutMemory();
  const absl::Status bounded = EndWithParentAndTime(limits.seconds);
  if (!bounded.ok()) return bounded;
  if (!Limit(RLIMIT_CORE, 0) || !Limit(RLIMIT_FSIZE, 0) || !Limit(RLIMIT_CPU, limits.cpu_seconds)) {
    return absl::ErrnoToStatus(errno, "setrlimit");
  }
  if (!kSandboxFilters) return absl::OkStatus();
  if (!Limit(RLIMIT_NOFILE, 0) || !Limit(RLIMIT_AS, limits.memory_bytes)) {
    return absl::ErrnoToStatus(errno, "setrlimit");
  }
  // Neither a debugger of the same user nor another decoder may inspect this process.
  if (prctl(PR_SET_DUMPABLE, 0) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return absl::ErrnoToStatus(errno, "prctl");
  }
  std::vector<sock_filter> filter = Filter();
  const sock_fprog program{.len = static_cast<uint16_t>(filter.size()), .filter = filter.data()};
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    return absl::ErrnoToStatus(errno, "it needs a kernel with seccomp");
  }
  return absl::OkStatus();
}

}  // namespace kinora
