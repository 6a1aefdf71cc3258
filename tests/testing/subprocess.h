// Runs a program of the build and captures its output.
#ifndef KINORA_TESTS_TESTING_SUBPROCESS_H_
#define KINORA_TESTS_TESTING_SUBPROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace kinora {

struct ProcessResult {
  int exit_status = -1;  // −1: ended by a signal
  std::string out{}, err{};
};

class Subprocess {
 public:
  // arguments[0] is the program's path. Standard output and error go to temporary files. Ends the test program if the
  // program cannot start.
  explicit Subprocess(const std::vector<std::string>& arguments);
  ~Subprocess();  // kills the process if it still runs
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  pid_t pid() const { return pid_; }
  std::string ErrSoFar() const;
  ProcessResult Wait();

 private:
  std::string out_path_, err_path_;
  pid_t pid_ = -1;
};

ProcessResult RunProcess(const std::vector<std::string>& arguments);

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_SUBPROCESS_H_
