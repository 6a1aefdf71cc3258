// Test only: runs a launch block by block and reports its errors.
#ifndef KINORA_TESTS_SIMT_EXECUTOR_H_
#define KINORA_TESTS_SIMT_EXECUTOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/simt/fiber.h"
#include "tests/simt/simt.h"

namespace kinora::simt {

struct GridLaunch {
  LaunchShape shape{};
  const void* stream = nullptr;  // identifies the stream to ThreadSanitizer
  const std::function<void()>* kernel = nullptr;
};

// A thread of the running block.
struct Thread {
  enum class State : uint8_t { kReady, kWaiting, kLeft };
  struct Copy {
    void* to;
    const void* from;
    int group;
  };

  explicit Thread(size_t index) : fiber(index) {}
  std::string Name() const;   // "thread 3 of block (0,1,0)"
  std::string Doing() const;  // "thread 3 … is at __syncthreads file:line"

  Fiber fiber;
  Place place{};
  State state = State::kReady;
  Meet meet = Meet::kNothing;
  const char* file = "";
  int line = 0;
  int argument = 0;            // of a shuffle
  uint64_t value = 0;          // its operand, then its result
  std::vector<Copy> copies{};  // pending asynchronous copies, in order
  int group = 0;               // copy group being filled
  bool waited = false;         // for the work before an early launch
};

class Executor {
 public:
  static Executor& Get();

  // If the launch fails, the device is lost (device_state.h) and the rest of the grid does not run.
  void Run(const GridLaunch& launch);

  // Called by kernels.
  void Barrier(const char* file, int line);
  uint64_t WarpMeet(Meet what, unsigned mask, uint64_t value, int argument, int width, const char* file, int line);
  void* Shared(const void* declaration, size_t bytes);
  bool CopyLater(void* to, const void* from);
  void CommitCopyGroup() { ++Current().group; }
  bool NextCopy(int groups_left, void** to, const void** from);
  void Fence();
  void WaitForPrevious();

 private:
  // Happens-before tokens within a block: two for its barriers and two for each warp's operations, used alternately.
  // Every block has new ones, since blocks are not ordered.
  struct Tokens {
    char barrier[2];
    char warp[32][2];
  };
  struct Meeting {
    Meet what;
    unsigned mask, arrived;
    int width;
  };
  struct Warp {
    unsigned left = 0;  // lanes that have returned or do not exist
    unsigned phase = 0;
    std::vector<Meeting> open{};
  };
  struct SharedArray {
    std::unique_ptr<char, void (*)(void*)> memory{nullptr, [](void*) {}};
    size_t bytes = 0;
  };

  Thread& Current() { return *threads_[current_]; }
  static void Entry();  // runs on every fiber
  void RunBlock(const uint3& index);
  void BeginBlock(const uint3& index);
  void RunReady();
  void ExplainDeadlock();
  void Leave();
  void ReleaseBarrier();
  void MakeReady(int thread);
  // Ends the launch. Called by kernels.
  [[noreturn]] void Fail(const std::string& why);
  void Join(Warp& warp, const Meeting& wanted);
  void FinishMeeting(int number, size_t meeting);
  void FinishMatrices(int number, Meet what);
  int Source(const Thread& thread, Meet what, int lane, int width) const;
  void BeginShared();

  const GridLaunch* launch_ = nullptr;
  const void* fibers_ = nullptr;  // key of the ThreadSanitizer fibers to reuse
  bool odd_ = false;
  std::vector<std::unique_ptr<Thread>> threads_;  // reused for later blocks
  int count_ = 0, current_ = 0;                   // threads per block; the running thread
  int waiting_ = 0, left_ = 0;                    // threads at the barrier; threads that have returned
  unsigned barrier_phase_ = 0;
  std::vector<int> ready_;
  Warp warps_[32];
  std::map<const void*, SharedArray> shared_;
  std::vector<SharedArray> old_shared_;  // of earlier blocks: not reused under ThreadSanitizer
  std::vector<std::unique_ptr<Tokens>> block_tokens_;
  Tokens* tokens_ = nullptr;
  struct {
    char start, end, fence;
  }* launch_tokens_ = nullptr;
};

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_EXECUTOR_H_
