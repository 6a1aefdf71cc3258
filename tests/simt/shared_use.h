// Test only: lets several processes of this machine share a simulated device. They share a file in which each sees how
// much device memory the others hold. Memory of processes that have ended is free again, as with a real driver.
#ifndef KINORA_TESTS_SIMT_SHARED_USE_H_
#define KINORA_TESTS_SIMT_SHARED_USE_H_

#include <sys/types.h>

#include <cstdint>

namespace kinora::simt {

class SharedUse {
 public:
  // `path` is the shared file, created if it does not exist. Ends the process if the file cannot be used.
  explicit SharedUse(const char* path);

  // Returns false, without reserving, if all processes together would hold more than `total`. Negative `bytes` release
  // memory.
  bool Take(int64_t bytes, int64_t total);
  int64_t Used();  // by all processes

 private:
  struct Slot {
    pid_t pid = 0;  // 0: free
    int64_t bytes = 0;
  };
  static constexpr int kSlots = 16;
  int64_t Sum();  // without processes that have ended
  Slot& Own();

  int file_ = -1;
  Slot* slots_ = nullptr;  // in the shared file
};

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_SHARED_USE_H_
