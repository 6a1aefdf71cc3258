// Test only: one simulated device for several processes of this machine. They share a file, and each sees how much of
// the device's memory the others hold; what a process held that has ended is free again, as a driver sees to it.
#ifndef KINORA_TESTS_SIMT_SHARED_USE_H_
#define KINORA_TESTS_SIMT_SHARED_USE_H_

#include <sys/types.h>

#include <cstdint>

namespace kinora::simt {

class SharedUse {
 public:
  // path: of the file, made if it is not there. Ends the process if it cannot be had.
  explicit SharedUse(const char* path);

  // False, and nothing taken, if all processes together would hold more than `total`. A negative number gives back.
  bool Take(int64_t bytes, int64_t total);
  int64_t Used();  // by all of them

 private:
  struct Slot {
    pid_t pid = 0;  // 0: free
    int64_t bytes = 0;
  };
  static constexpr int kSlots = 16;
  int64_t Sum();  // without those that have ended
  Slot& Own();

  int file_ = -1;
  Slot* slots_ = nullptr;  // in the file
};

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_SHARED_USE_H_
