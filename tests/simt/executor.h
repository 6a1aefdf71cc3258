// Test only: runs a launch, block after block, and says what is wrong with it.
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
  const void* stream = nullptr;  // a name for it, for ThreadSanitizer
  const std::function<void()>* kernel = nullptr;
};

// A thread of the block that runs.
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
  uint64_t value = 0;          // that it brings, then what it gets
  std::vector<Copy> copies{};  // asynchronous and not made yet, in their order
  int group = 0;               // of copies, that is being filled
  bool waited = false;         // for what was enqueued before an early launch
};

class Executor {
 public:
  static Executor& Get();

  // On failure the device is lost (device_state.h), and the rest of the grid does not run.
  void Run(const GridLaunch& launch);

  // From within a kernel.
  void Barrier(const char* file, int line);
  uint64_t WarpMeet(Meet what, unsigned mask, uint64_t value, int argument, int width, const char* file, int line);
  void* Shared(const void* declaration, size_t bytes);
  bool CopyLater(void* to, const void* from);
  void CommitCopyGroup() { ++Current().group; }
  bool NextCopy(int groups_left, void** to, const void** from);
  void Fence();
  void WaitForPrevious();

 private:
  // What stands for happens-before edges inside a block: of its barriers and of its warps' meetings, two of each in
  // turn. New for every block, since blocks are not ordered among themselves.
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
    unsigned left = 0;  // lanes that have returned or never were
    unsigned phase = 0;
    std::vector<Meeting> open{};
  };
  struct SharedArray {
    std::unique_ptr<char, void (*)(void*)> memory{nullptr, [](void*) {}};
    size_t bytes = 0;
  };

  Thread& Current() { return *threads_[current_]; }
  static void Entry();  // of every fiber
  void RunBlock(const uint3& index);
  void BeginBlock(const uint3& index);
  void RunReady();
  void ExplainDeadlock();
  void Leave();
  void ReleaseBarrier();
  void MakeReady(int thread);
  // Ends the launch from within a kernel.
  [[noreturn]] void Fail(const std::string& why);
  void Join(Warp& warp, const Meeting& wanted);
  void FinishMeeting(int number, size_t meeting);
  int Source(const Thread& thread, Meet what, int lane, int width) const;
  void BeginShared();

  const GridLaunch* launch_ = nullptr;
  const void* fibers_ = nullptr;  // which ones ThreadSanitizer may know from earlier launches
  bool odd_ = false;
  std::vector<std::unique_ptr<Thread>> threads_;  // kept for later blocks
  int count_ = 0, current_ = 0;                   // threads of a block; the one that runs
  int waiting_ = 0, left_ = 0;                    // at the barrier; returned
  unsigned barrier_phase_ = 0;
  std::vector<int> ready_;
  Warp warps_[32];
  std::map<const void*, SharedArray> shared_;
  std::vector<SharedArray> old_shared_;  // of earlier blocks: under ThreadSanitizer their memory is not used twice
  std::vector<std::unique_ptr<Tokens>> block_tokens_;
  Tokens* tokens_ = nullptr;
  struct {
    char start, end, fence;
  }* launch_tokens_ = nullptr;
};

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_EXECUTOR_H_
