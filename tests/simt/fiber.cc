// Compiled without -fsanitize=thread (KINORA_SIMT_TSAN is defined if the program uses it): only kernels are
// instrumented.
#include "tests/simt/fiber.h"

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>

#include <cstdlib>
#include <map>
#include <vector>

#if !defined(__x86_64__)
#error "the simulated device switches stacks in x86-64 instructions"
#endif

extern "C" {
void kinora_simt_switch(void** save, void* load);
#ifdef KINORA_SIMT_TSAN
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
void __tsan_ignore_thread_begin();
void __tsan_ignore_thread_end();
#endif
#ifdef __SANITIZE_ADDRESS__
void __sanitizer_start_switch_fiber(void** save, const void* bottom, size_t size);
void __sanitizer_finish_switch_fiber(void* save, const void** bottom, size_t* size);
#endif
}

// Saves the callee-saved registers and the stack pointer: the whole state that a switch at a call must exchange.
asm(R"(.text
.globl kinora_simt_switch
.type kinora_simt_switch,@function
kinora_simt_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size kinora_simt_switch,.-kinora_simt_switch
)");

namespace kinora::simt {
namespace {

constexpr int kSavedRegisters = 6;
constexpr size_t kPage = 4096;
#ifdef KINORA_SIMT_TSAN
constexpr size_t kStackBytes = 32 << 10;
constexpr unsigned kNoSync = 1;
#else
constexpr size_t kStackBytes = 256 << 10;
#endif

// The scheduler's side of a switch.
struct Scheduler {
  void* top = nullptr;
  void* asan = nullptr;
  const void* bottom = nullptr;
  size_t size = 0;
  void* tsan = nullptr;
};
Scheduler scheduler;

// ThreadSanitizer's fibers are expensive to create, so they are reused for later launches of their stream.
std::map<const void*, std::vector<void*>>& SpareFibers() {
  static auto* const spare = new std::map<const void*, std::vector<void*>>;
  return *spare;
}
std::vector<void*>& UsedFibers() {
  static auto* const used = new std::vector<void*>;
  return *used;
}

#ifdef KINORA_SIMT_TSAN
void* TakeFiber(const void* stream) {
  std::vector<void*>& spare = SpareFibers()[stream];
  if (spare.empty()) spare.push_back(__tsan_create_fiber(0));
  void* const fiber = spare.back();
  spare.pop_back();
  UsedFibers().push_back(fiber);
  return fiber;
}
#endif

}  // namespace

Fiber::~Fiber() {
#ifdef KINORA_SIMT_TSAN
  free(stack_);
#else
  if (stack_ != nullptr) munmap(stack_ - kPage, kStackBytes + kPage);
#endif
}

void Fiber::MapStack() {
#ifdef KINORA_SIMT_TSAN
  free(stack_);
  stack_ = static_cast<char*>(malloc(kStackBytes));  // new each time: ThreadSanitizer has no history of new memory
#else
  if (stack_ != nullptr) return;
  char* const base = static_cast<char*>(
      mmap(nullptr, kStackBytes + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (base == MAP_FAILED) abort();
  mprotect(base, kPage, PROT_NONE);  // an overflow crashes the test
  stack_ = base + kPage;
#endif
}

void Fiber::Begin(void (*entry)(), [[maybe_unused]] const void* stream) {
  MapStack();
#ifdef __SANITIZE_ADDRESS__
  if (top_ != nullptr) __asan_unpoison_memory_region(top_, stack_ + kStackBytes - static_cast<char*>(top_));
#endif
  // Staggered, since otherwise all stack tops would map to the same cache lines.
  const size_t offset = index_ * 576 % (kStackBytes / 8) / 64 * 64;
  void** top = reinterpret_cast<void**>(stack_ + kStackBytes - offset) - 1;
  *--top = reinterpret_cast<void*>(entry);
  top_ = top - kSavedRegisters;  // their initial values do not matter
#ifdef KINORA_SIMT_TSAN
  tsan_ = TakeFiber(stream);
#endif
}

void Fiber::Resume() {
#ifdef KINORA_SIMT_TSAN
  __tsan_switch_to_fiber(tsan_, kNoSync);
#endif
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&scheduler.asan, stack_, kStackBytes);
#endif
  kinora_simt_switch(&scheduler.top, top_);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(scheduler.asan, nullptr, nullptr);
#endif
}

void Fiber::Entered() {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(nullptr, &scheduler.bottom, &scheduler.size);
#endif
}

void Fiber::Switch([[maybe_unused]] bool forever) {
#ifdef KINORA_SIMT_TSAN
  __tsan_switch_to_fiber(scheduler.tsan, kNoSync);
#endif
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(forever ? nullptr : &asan_, scheduler.bottom, scheduler.size);
#endif
  kinora_simt_switch(&top_, scheduler.top);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(asan_, nullptr, nullptr);
#endif
}

void Fiber::Leave() {
  Switch(true);
  abort();  // a fiber that has left is never resumed
}

void Fiber::BeginLaunch() {
#ifdef KINORA_SIMT_TSAN
  scheduler.tsan = __tsan_get_current_fiber();
#endif
}

void Fiber::EndLaunch(const void* stream) {
  std::vector<void*>& spare = SpareFibers()[stream];
  spare.insert(spare.end(), UsedFibers().begin(), UsedFibers().end());
  UsedFibers().clear();
}

#ifdef KINORA_SIMT_TSAN
void Acquire(void* token) { __tsan_acquire(token); }
void Release(void* token) { __tsan_release(token); }
ForeignThread::ForeignThread() : before_(__tsan_get_current_fiber()), own_(__tsan_create_fiber(0)) {
  __tsan_switch_to_fiber(own_, kNoSync);
}
ForeignThread::~ForeignThread() {
  __tsan_switch_to_fiber(before_, kNoSync);
  __tsan_destroy_fiber(own_);
}
Unwatched::Unwatched() { __tsan_ignore_thread_begin(); }
Unwatched::~Unwatched() { __tsan_ignore_thread_end(); }
void Unwatched::Abandon() { __tsan_ignore_thread_end(); }
#else
void Acquire(void*) {}
void Release(void*) {}
ForeignThread::ForeignThread() = default;
ForeignThread::~ForeignThread() = default;
Unwatched::Unwatched() = default;
Unwatched::~Unwatched() = default;
void Unwatched::Abandon() {}
#endif

}  // namespace kinora::simt
