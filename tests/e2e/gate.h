// Blocks runs of the scripted worker at their first step until the test opens the gate.
#ifndef KINORA_TESTS_E2E_GATE_H_
#define KINORA_TESTS_E2E_GATE_H_

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "engine/base/check.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {

class Gate {
 public:
  explicit Gate(const TemporaryDirectory& directory) : path_(directory.File("gate")) {
    KINORA_CHECK(mkfifo(path_.c_str(), 0600) == 0) << path_;
    fd_ = open(path_.c_str(), O_RDWR | O_CLOEXEC);
    KINORA_CHECK(fd_ >= 0) << path_;
  }
  ~Gate() { close(fd_); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  std::string Prompt() const { return "steps=3 gate=" + path_; }   // for a job that waits
  void Open() { KINORA_CHECK(write(fd_, "x", 1) == 1) << path_; }  // permanently: nobody reads the byte

 private:
  const std::string path_;
  int fd_ = -1;
};

}  // namespace kinora

#endif  // KINORA_TESTS_E2E_GATE_H_
