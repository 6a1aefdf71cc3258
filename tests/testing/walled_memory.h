// The two mappings of a walled backend's memory. See walled_backend.h.
#ifndef KINORA_TESTS_TESTING_WALLED_MEMORY_H_
#define KINORA_TESTS_TESTING_WALLED_MEMORY_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include "engine/tensor/buffer.h"

namespace kinora {

// Addresses are handed out once. Freed memory returns its pages but stays closed, so late uses die as well, or read
// zeros inside an op. Thread-safe.
class WalledMemory : public std::enable_shared_from_this<WalledMemory> {
 public:
  // Fails with ResourceExhausted if the mappings cannot be made.
  static absl::StatusOr<std::shared_ptr<WalledMemory>> Create();
  ~WalledMemory();
  WalledMemory(const WalledMemory&) = delete;
  WalledMemory& operator=(const WalledMemory&) = delete;

  // Returns a buffer of closed addresses, filled with NaN.
  absl::StatusOr<Buffer> Allocate(int64_t bytes, std::string_view what);
  // Returns the open address of a closed one; null for null. Ends the program if the address is not in this memory,
  // i.e. host memory was passed as device memory.
  char* Open(const void* closed) const;

 private:
  WalledMemory(int file, char* closed, char* open) : file_(file), closed_(closed), open_(open) {}
  void Release(void* closed, int64_t bytes);

  const int file_;
  char* const closed_;
  char* const open_;
  std::mutex mu_;
  int64_t used_ = 0;
};

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_WALLED_MEMORY_H_
