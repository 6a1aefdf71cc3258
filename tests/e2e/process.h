// A child process of a test. Its output is collected, so that the test can wait for a line or for the end.
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
  explicit Process(const std::vector<std::string>& arguments);  // arguments[0]: path of the program
  ~Process();                                                   // kills the process if it still runs, and waits for it
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Returns the first line of either stream that contains `text`; "" if the output ends or two minutes pass before.
  std::string AwaitLine(const std::string& text);
  // Waits until no process can write to either stream: this process and all processes that inherited the streams ended.
  bool AwaitEndOfOutput();
  void Signal(int signal) const;
  int Wait();  // returns the exit status, or 128 + the signal that ended it
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
