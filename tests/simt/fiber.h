// Test only: a stack of its own that control enters and leaves, which is what a CUDA thread is here. AddressSanitizer
// and ThreadSanitizer are told of every switch; to the latter each fiber is a thread.
#ifndef KINORA_TESTS_SIMT_FIBER_H_
#define KINORA_TESTS_SIMT_FIBER_H_

#include <cstddef>

namespace kinora::simt {

class Fiber {
 public:
  // index: of the thread in its block.
  explicit Fiber(size_t index) : index_(index) {}
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  // The next Resume calls `entry` on an empty stack. entry ends with Leave. stream: launches of one stream are ordered,
  // so their fibers may be one thread to ThreadSanitizer; those of different streams are not.
  void Begin(void (*entry)(), const void* stream);
  // From the scheduler's stack; returns once the fiber has paused or left.
  void Resume();
  // First thing in `entry`.
  static void Entered();
  // From the fiber's own stack: back to the scheduler.
  void Pause() { Switch(false); }
  [[noreturn]] void Leave();

  // Around all fibers of a launch, on the scheduler's stack.
  static void BeginLaunch();
  static void EndLaunch(const void* stream);

 private:
  void Switch(bool forever);
  void MapStack();

  const size_t index_;
  char* stack_ = nullptr;  // its lowest address
  void* top_ = nullptr;    // where the saved registers lie
  void* asan_ = nullptr;   // AddressSanitizer's word for the stack's fakes
  void* tsan_ = nullptr;   // ThreadSanitizer's for the fiber
};

// ThreadSanitizer's happens-before edges, by an address that stands for them; nothing without it.
void Acquire(void* token);
void Release(void* token);

// Runs `body` as a thread of its own to ThreadSanitizer, which acquires nothing and releases nothing by it.
class ForeignThread {
 public:
  ForeignThread();
  ~ForeignThread();

 private:
  void* before_ = nullptr;
  void* own_ = nullptr;
};

// While it lives ThreadSanitizer looks away: the simulation's own memory.
class Unwatched {
 public:
  Unwatched();
  ~Unwatched();
  // Ends the innermost, whose destructor will not run: its fiber is left for good.
  static void Abandon();
};

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_FIBER_H_
