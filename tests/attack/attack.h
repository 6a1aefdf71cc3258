// Shared by all attacks: a frontend with a supervised worker, measurements, and a check that the service recovers. Uses
// only loopback and Unix sockets; each program is bounded in time and count.
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

// A frontend that requires a token.
class Target {
 public:
  // `open_files` limits the frontend's file descriptors; 0 means this process's limit. With `join_port` it also expects
  // a group "far" of one external rank.
  Target(const std::vector<std::string>& flags, int open_files, bool join_port);

  std::string address() const { return "127.0.0.1:" + port_; }
  std::string worker_address() const { return "unix:" + directory_.File("state/worker.sock"); }
  std::string join_address() const { return "127.0.0.1:" + join_port_; }
  static std::string JoinToken();  // for external workers
  int http_port() const { return http_port_; }
  int descriptors() const;  // that the frontend has open
  int pid() const { return static_cast<int>(frontend_->pid()); }
  std::string authorization() const;  // of a client with the token
  std::string Log() const { return frontend_->Err(); }

  // Creates a job, waits until it is COMPLETED at the first attempt, and returns its id.
  absl::StatusOr<std::string> RunAJob() const;
  // Checks that a job runs and that /livez and /readyz report OK.
  absl::Status Serves() const;
  absl::Status PageIsOk(const std::string& page) const;

 private:
  TemporaryDirectory directory_;
  std::unique_ptr<Process> frontend_;
  std::string port_, join_port_;
  int http_port_ = 0;
};

struct Effort {  // the attacker's
  std::atomic<int64_t> connections = 0, bytes = 0;
};

// Ignores SIGPIPE and takes as many descriptors as this process may have.
void PrepareAttacker();

// What an attack is measured by.
struct MeasuredAttack {
  std::string name;
  int pid;                    // of the attacked process
  int64_t most_growth_bytes;  // limit for its resident memory during the attack
  std::function<absl::Status(Effort&)> attack;
  std::function<absl::Status()> serves;  // asked before and after
  std::function<std::string()> log;      // of the attacked process
};

// Runs the attack and prints one line of measurements. Returns the exit status: 0, or 1 if the attack failed, memory
// grew beyond the limit, or the service did not recover within a minute after the attack.
int Measure(const MeasuredAttack& measured);

struct AttackPlan {
  std::string name;
  std::vector<std::string> flags;  // frontend flags
  int open_files = 0;              // the frontend's limit; 0: as for this process
  bool join_port = false;          // external workers may join
  int64_t most_growth_bytes;       // limit for resident memory during the attack
  // Must keep what it opens until it returns. Returns an error if it observes something forbidden.
  std::function<absl::Status(const Target&, Effort&)> attack;
};

// Measures the attack against a new frontend.
int RunAttack(const AttackPlan& plan);

}  // namespace kinora

#endif  // KINORA_TESTS_ATTACK_ATTACK_H_
