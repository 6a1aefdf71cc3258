// A child process of a test: its output is collected line by line, and a test waits for a line or for the end.
#ifndef KINORA_TESTS_E2E_PROCESS_H_
#define KINORA_TESTS_E2E_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace kinora {

class Process {
 public:
  explicit Process(const std::vector<std::string>& arguments);  // arguments[0]: the program's path
  ~Process();                                                   // killed and waited for, if it still runs
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // The first line of either stream that contains `text`; "" if the output ends, or two minutes pass, without one.
  std::string AwaitLine(const std::string& text);
  // Until nobody writes to either stream any more: the process has ended, and those that it started and left them to.
  bool AwaitEndOfOutput();
  void Signal(int signal) const;
  int Wait();  // exit status; 128 + the signal that ended it
  pid_t pid() const { return pid_; }
  std::string Out() const;  // standard output so far
  std::string Err() const;

 private:
  void Collect(int fd, std::string& whole);

  pid_t pid_ = 0;
  bool waited_ = false;
  int status_ = 0;
  mutable absl::Mutex mu_;
  std::string out_ ABSL_GUARDED_BY(mu_), err_ ABSL_GUARDED_BY(mu_);
  int open_streams_ ABSL_GUARDED_BY(mu_) = 2;
  std::thread readers_[2];
};

struct Result {
  int status;
  std::string out, err;
};
Result RunToEnd(const std::vector<std::string>& arguments);

}  // namespace kinora

#endif  // KINORA_TESTS_E2E_PROCESS_H_
