// Simulates a compromised decoder: in the sandbox it attempts the action named in the file (descriptor 3).
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>

#include "server/decode/decode_protocol.h"
#include "server/decode/sandbox.h"

namespace {

constexpr int kDone = 42;  // the action was allowed

void Do(const std::string& what) {
  if (what == "open") open("/etc/passwd", O_RDONLY);
  if (what == "create") open("/tmp/kinora-sandbox-probe", O_WRONLY | O_CREAT, 0600);
  if (what == "socket") socket(AF_INET, SOCK_STREAM, 0);
  if (what == "unix socket") socket(AF_UNIX, SOCK_STREAM, 0);
  if (what == "fork") fork();
  if (what == "exec") execl("/bin/true", "true", nullptr);
  if (what == "kill parent") kill(getppid(), SIGTERM);
  if (what == "ptrace") syscall(SYS_ptrace, 0, 0, 0, 0);
  if (what == "unlink") unlink("/tmp/kinora-sandbox-probe");
  if (what == "code") mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (what == "duplicate") dup(0);
  if (what == "close") {  // and waits forever
    close(1);
    char nothing;
    while (read(0, &nothing, 1) > 0) continue;
  }
  if (what == "sleep" || what == "sleep long") {  // blocks every signal that can be blocked
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, nullptr);
    int word = 0;
    syscall(SYS_futex, &word, FUTEX_WAIT, 0, nullptr, nullptr, 0);
  }
  if (what == "status 2") _exit(2);
  if (what == "memory") {
    for (int i = 0; i < 64; ++i) {
      void* some = malloc(size_t{64} << 20);
      if (some == nullptr) abort();  // as a library may do when out of memory
      memset(some, 1, size_t{64} << 20);
    }
  }
  if (what == "time") {
    volatile bool more = true;
    while (more) continue;
  }
}

}  // namespace

int main() {
  char what[64] = "";
  const ssize_t n = pread(3, what, sizeof(what) - 1, 0);
  const int seconds = std::strcmp(what, "sleep") == 0 ? 1 : 60;
  const kinora::SandboxLimits limits{.memory_bytes = int64_t{512} << 20, .cpu_seconds = 1, .seconds = seconds};
  if (n < 0 || !kinora::EnterSandbox(limits).ok()) _exit(2);
  const kinora::ReplyHeader begun{.kind = kinora::ReplyKind::kSandboxed, .bytes = 0};
  if (write(1, &begun, sizeof(begun)) != sizeof(begun)) _exit(1);
  Do(std::string(what, n));
  _exit(kDone);
}
