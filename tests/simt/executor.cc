// Blocks, the order of their threads, and barriers. Compiled without -fsanitize=thread, so that only kernels are
// instrumented.
#include "tests/simt/executor.h"

#include <algorithm>

#include "tests/simt/device_state.h"
#include "tests/simt/work.h"

namespace kinora::simt {
namespace {

std::string Coordinates(const uint3& at) {
  return "(" + std::to_string(at.x) + "," + std::to_string(at.y) + "," + std::to_string(at.z) + ")";
}

}  // namespace

Place* here = nullptr;

std::string Thread::Name() const {
  const dim3& size = place.block_dim;
  const std::string thread = size.y * size.z == 1 ? std::to_string(place.thread.x) : Coordinates(place.thread);
  return "thread " + thread + " of block " + Coordinates(place.block);
}

std::string Thread::Doing() const {
  static constexpr const char* kNames[] = {"",
                                           "__syncthreads",
                                           "__syncwarp",
                                           "__shfl_sync",
                                           "__shfl_up_sync",
                                           "__shfl_down_sync",
                                           "__shfl_xor_sync",
                                           "a vote",
                                           "MultiplyTiles",
                                           "LoadMatrices",
                                           "LoadTransposed"};
  if (state == State::kLeft) return Name() + " has returned";
  if (meet == Meet::kNothing) return Name() + " runs";
  return Name() + " is at " + kNames[static_cast<int>(meet)] + " " + file + ":" + std::to_string(line);
}

Executor& Executor::Get() {
  static auto* const executor = new Executor;
  return *executor;
}

void Executor::Run(const GridLaunch& launch) {
  const Unwatched unwatched;
  ++Counters().kernels;
  launch_ = &launch;
  count_ = static_cast<int>(launch.shape.block.x * launch.shape.block.y * launch.shape.block.z);
  while (threads_.size() < static_cast<size_t>(count_)) threads_.push_back(std::make_unique<Thread>(threads_.size()));
  // ThreadSanitizer may reuse fibers for ordered launches of one stream, but not for an early launch and its
  // predecessor.
  odd_ ^= launch.shape.early;
  fibers_ = static_cast<const char*>(launch.stream) + (odd_ ? 1 : 0);
  Fiber::BeginLaunch();
  const auto launch_tokens = std::make_unique<std::remove_pointer_t<decltype(launch_tokens_)>>();
  launch_tokens_ = launch_tokens.get();
  Release(&launch_tokens_->start);
  const dim3& grid = launch.shape.grid;
  const uint64_t blocks = uint64_t{grid.x} * grid.y * grid.z;
  const uint64_t turn = Random() % blocks;  // blocks in any order: rotated or reversed
  const bool backwards = Random() % 2 != 0;
  for (uint64_t b = 0; b < blocks && !Lost(); ++b) {
    const uint64_t i = ((backwards ? blocks - 1 - b : b) + turn) % blocks;
    RunBlock({static_cast<unsigned>(i % grid.x), static_cast<unsigned>(i / grid.x % grid.y),
              static_cast<unsigned>(i / grid.x / grid.y)});
  }
  Acquire(&launch_tokens_->end);
  Fiber::EndLaunch(fibers_);
  shared_.clear();
  old_shared_.clear();
  block_tokens_.clear();
  here = nullptr;
}

void Executor::RunBlock(const uint3& index) {
  BeginBlock(index);
  RunReady();
  if (!Lost() && left_ < count_) ExplainDeadlock();
}

void Executor::BeginBlock(const uint3& index) {
  ++Counters().blocks;
  Counters().threads += count_;
  waiting_ = left_ = 0;
#ifndef KINORA_SIMT_TSAN
  block_tokens_.clear();
#endif
  block_tokens_.push_back(std::make_unique<Tokens>());
  tokens_ = block_tokens_.back().get();
  BeginShared();
  for (int w = 0; w * 32 < count_; ++w) {
    const int lanes = std::min(32, count_ - w * 32);
    warps_[w] = {.left = lanes == 32 ? 0 : ~0u << lanes};
  }
  ready_.clear();
  const dim3& block = launch_->shape.block;
  for (int i = 0; i < count_; ++i) {
    const auto n = static_cast<unsigned>(i);
    Thread& t = *threads_[i];
    t.place = {{n % block.x, n / block.x % block.y, n / block.x / block.y}, index, block, launch_->shape.grid};
    t.copies.clear();
    t.group = 0;
    t.waited = !launch_->shape.early;
    t.fiber.Begin(&Executor::Entry, fibers_);
    MakeReady(i);
  }
}

void Executor::RunReady() {
  while (!ready_.empty() && !Lost()) {
    const size_t pick = Random() % ready_.size();
    current_ = ready_[pick];
    ready_[pick] = ready_.back();
    ready_.pop_back();
    here = &Current().place;
    ++Counters().switches;
    Current().fiber.Resume();
  }
}

void Executor::Entry() {
  Fiber::Entered();
  Executor& self = Get();
  Acquire(&self.launch_tokens_->start);
  (*self.launch_->kernel)();
  Release(&self.launch_tokens_->end);
  self.Leave();
  self.Current().fiber.Leave();
}

void Executor::Leave() {
  const Unwatched unwatched;
  Thread& t = Current();
  t.state = Thread::State::kLeft;
  if (!t.waited) LoseDevice(t.Name() + " of an early launch ended without WaitForPrevious");
  ++left_;
  Warp& warp = warps_[current_ / 32];
  warp.left |= 1u << current_ % 32;
  for (const Meeting& m : warp.open) {
    if ((m.mask & warp.left) != 0) LoseDevice("a mask names a lane that has returned: " + t.Doing());
  }
  ReleaseBarrier();
}

void Executor::MakeReady(int thread) {
  Thread& t = *threads_[thread];
  t.state = Thread::State::kReady;
  t.meet = Meet::kNothing;
  ready_.push_back(thread);
}

// Once every thread waits or has returned, all must wait at the same line, and none may have returned.
void Executor::ReleaseBarrier() {
  if (waiting_ == 0 || waiting_ + left_ < count_) return;
  const Thread& first = **std::find_if(threads_.begin(), threads_.begin() + count_,
                                       [](const auto& t) { return t->state != Thread::State::kLeft; });
  for (int i = 0; i < count_; ++i) {
    const Thread& t = *threads_[i];
    if (t.state == Thread::State::kLeft) {
      return LoseDevice("a barrier after a return: " + first.Doing() + ", " + t.Doing());
    }
    if (t.line != first.line || t.file != first.file) {
      return LoseDevice("divergent barrier: " + first.Doing() + ", " + t.Doing());
    }
  }
  waiting_ = 0;
  ++barrier_phase_;
  for (int i = 0; i < count_; ++i) MakeReady(i);
}

void Executor::Barrier(const char* file, int line) {
  Thread& t = Current();
  void* token;
  {
    const Unwatched unwatched;
    t.state = Thread::State::kWaiting;
    t.meet = Meet::kBlock;
    t.file = file;
    t.line = line;
    ++waiting_;
    token = &tokens_->barrier[barrier_phase_ % 2];
    Release(token);
    ReleaseBarrier();
  }
  t.fiber.Pause();
  Acquire(token);
}

void Executor::WaitForPrevious() {
  for (char* const before : NotWaitedFor()) Acquire(before);
  Current().waited = true;
}

void Executor::ExplainDeadlock() {
  std::string why = "deadlock:";
  const Thread* last = nullptr;
  for (int i = 0; i < count_; ++i) {  // one thread per run of threads in the same state
    const Thread& t = *threads_[i];
    if (last == nullptr || t.state != last->state || t.meet != last->meet || t.line != last->line) {
      why += (last == nullptr ? " " : "; ") + t.Doing();
    }
    last = &t;
  }
  LoseDevice(why);
}

void Executor::Fail(const std::string& why) {
  LoseDevice(why + ": " + Current().Doing());
  Unwatched::Abandon();  // of the failing operation
  Current().fiber.Leave();
}

void WaitForPrevious() { Executor::Get().WaitForPrevious(); }
void Barrier(const char* file, int line) { Executor::Get().Barrier(file, line); }

}  // namespace kinora::simt
