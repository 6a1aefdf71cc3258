// What every attack shares: a frontend of its own with a supervised worker, the figures, and the question whether the
// service has come back. Loopback and Unix sockets alone; each program is bounded in time and count.
#ifndef KINORA_TESTS_ATTACK_ATTACK_H_
#define KINORA_TESTS_ATTACK_ATTACK_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/e2e/process.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {

// A frontend that asks for a token.
class Target {
 public:
  // open_files: the descriptors that it may have; 0: as many as this process.
  Target(const std::vector<std::string>& flags, int open_files);

  std::string address() const { return "127.0.0.1:" + port_; }
  std::string worker_address() const { return "unix:" + directory_.File("state/worker.sock"); }
  int http_port() const { return http_port_; }
  int pid() const { return static_cast<int>(frontend_->pid()); }
  std::string authorization() const;  // of a client that has the token
  std::string Log() const { return frontend_->Err(); }

  // Creates a job and waits for its end: its id, COMPLETED at the first attempt.
  absl::StatusOr<std::string> RunAJob() const;
  // A job runs, and /livez and /readyz say so.
  absl::Status Serves() const;
  absl::Status PageIsOk(const std::string& page) const;

 private:
  TemporaryDirectory directory_;
  std::unique_ptr<Process> frontend_;
  std::string port_;
  int http_port_ = 0;
};

struct Effort {  // of the attacker
  std::atomic<int64_t> connections = 0, bytes = 0;
};

struct AttackPlan {
  std::string name;
  std::vector<std::string> flags;  // of the frontend
  int open_files = 0;              // that it may have; 0: as many as this process
  int64_t most_growth_bytes;       // of its resident memory, during the attack
  // Holds what it has opened until it returns. An error: something was seen that must not be.
  std::function<absl::Status(const Target&, Effort&)> attack;
};

// Runs the attack against a new frontend, prints its figures in one line, and returns the exit status: 0; 1 the attack
// saw something wrong, memory grew beyond the bound, or the service is not back a minute after the attack.
int RunAttack(const AttackPlan& plan);

}  // namespace kinora

#endif  // KINORA_TESTS_ATTACK_ATTACK_H_
