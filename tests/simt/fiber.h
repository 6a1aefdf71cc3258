// Test only: a coroutine with its own stack, which represents one CUDA thread. Notifies AddressSanitizer and
// ThreadSanitizer of every switch; ThreadSanitizer sees each fiber as a thread.
#ifndef KINORA_TESTS_SIMT_FIBER_H_
#define KINORA_TESTS_SIMT_FIBER_H_

#include <cstddef>

namespace kinora::simt {

class Fiber {
 public:
  // `index` is the thread's index in its block.
  explicit Fiber(size_t index) : index_(index) {}
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  // The next Resume calls `entry` on an empty stack; `entry` must end with Leave. Launches of one `stream` are ordered,
  // so ThreadSanitizer may see their fibers as one thread; fibers of different streams are different threads.
  void Begin(void (*entry)(), const void* stream);
  // Switches from the scheduler's stack to the fiber. Returns once the fiber has paused or left.
  void Resume();
  // `entry` must call this first.
  static void Entered();
  // Called on the fiber's own stack; both return control to the scheduler.
  void Pause() { Switch(false); }
  [[noreturn]] void Leave();

  // Called on the scheduler's stack before and after all fibers of a launch.
  static void BeginLaunch();
  static void EndLaunch(const void* stream);

 private:
  void Switch(bool forever);
  void MapStack();

  const size_t index_;
  char* stack_ = nullptr;  // its lowest address
  void* top_ = nullptr;    // address of the saved registers
  void* asan_ = nullptr;   // AddressSanitizer's handle of the fake stack
  void* tsan_ = nullptr;   // ThreadSanitizer's handle of the fiber
};

// Happens-before edges for ThreadSanitizer, identified by an address. No-ops without ThreadSanitizer.
void Acquire(void* token);
void Release(void* token);

// During its lifetime ThreadSanitizer sees the code as a separate thread. Creating and destroying it adds no
// happens-before edges.
class ForeignThread {
 public:
  ForeignThread();
  ~ForeignThread();

 private:
  void* before_ = nullptr;
  void* own_ = nullptr;
};

// During its lifetime ThreadSanitizer ignores memory accesses. For the simulation's own memory.
class Unwatched {
 public:
  Unwatched();
  ~Unwatched();
  // Ends the innermost Unwatched whose destructor will not run because its fiber is abandoned.
  static void Abandon();
};

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_FIBER_H_
