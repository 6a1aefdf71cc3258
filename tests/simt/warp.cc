// Warp operations. Compiled without -fsanitize=thread.
#include <array>
#include <bit>

#include "tests/simt/device_state.h"
#include "tests/simt/executor.h"
#include "tests/simt/warp_matrices.h"

namespace kinora::simt {

uint64_t Executor::WarpMeet(Meet what, unsigned mask, uint64_t value, int argument, int width, const char* file,
                            int line) {
  Thread& self = Current();
  const int number = current_ / 32;
  Warp& warp = warps_[number];
  void* const token = &tokens_->warp[number][warp.phase % 2];
  {
    const Unwatched unwatched;
    self.meet = what;
    self.value = value;
    self.argument = argument;
    self.file = file;
    self.line = line;
    Join(warp, {what, mask, 0, width});
    if (what == Meet::kWarp) Release(token);  // only __syncwarp orders memory
    for (size_t i = 0; i < warp.open.size(); ++i) {
      if (warp.open[i].arrived == warp.open[i].mask) FinishMeeting(number, i);
    }
  }
  self.fiber.Pause();
  if (what == Meet::kWarp) Acquire(token);
  return self.value;
}

void Executor::Join(Warp& warp, const Meeting& wanted) {
  const unsigned me = 1u << current_ % 32;
  if ((wanted.mask & me) == 0) Fail("a lane outside its own mask");
  if (const unsigned gone = wanted.mask & warp.left; gone != 0) {
    Fail("the mask names lane " + std::to_string(__builtin_ctz(gone)) + ", which has returned or never was");
  }
  size_t n = 0;
  while (n < warp.open.size() && (warp.open[n].mask & wanted.mask) == 0) ++n;
  if (n == warp.open.size()) warp.open.push_back(wanted);
  Meeting& meeting = warp.open[n];
  if (meeting.what != wanted.what || meeting.mask != wanted.mask || meeting.width != wanted.width) {
    const Thread& other = *threads_[current_ / 32 * 32 + __builtin_ctz(meeting.arrived)];
    Fail("lanes of one mask disagree: " + other.Doing());
  }
  meeting.arrived |= me;
  Current().state = Thread::State::kWaiting;
}

// Returns the lane that `lane` reads.
int Executor::Source(const Thread& thread, Meet what, int lane, int width) const {
  const int base = lane & ~(width - 1), by = thread.argument;
  if (what == Meet::kShuffle) return base + (by & (width - 1));
  if (what == Meet::kUp && lane - by >= base) return lane - by;
  if (what == Meet::kDown && lane + by < base + width) return lane + by;
  if (what == Meet::kXor && (lane ^ by) < base + width) return lane ^ by;
  return lane;
}

void Executor::FinishMeeting(int number, size_t meeting) {
  Warp& warp = warps_[number];
  const Meeting m = warp.open[meeting];
  warp.open.erase(warp.open.begin() + static_cast<int64_t>(meeting));
  const int first = number * 32;
  if (m.what >= Meet::kMultiply) {
    ++warp.phase;
    return FinishMatrices(number, m.what);
  }
  uint64_t results[32] = {};
  uint64_t votes = 0;
  for (unsigned rest = m.mask; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const Thread& t = *threads_[first + lane];
    const int source = Source(t, m.what, lane, m.width);
    if ((m.mask >> source & 1) == 0)
      Fail("lane " + std::to_string(source) + " is read and takes no part: " + t.Doing());
    results[lane] = threads_[first + source]->value;
    if (t.value != 0) votes |= uint64_t{1} << lane;
  }
  ++warp.phase;
  for (unsigned rest = m.mask; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    threads_[first + lane]->value = m.what == Meet::kBallot ? votes : results[lane];
    MakeReady(first + lane);
  }
}

// The lanes wait, so the operands on their stacks are there.
void Executor::FinishMatrices(int number, Meet what) {
  const auto operands = [&]<typename T>(std::array<T*, 32>& lanes) {
    for (int i = 0; i < 32; ++i) lanes[i] = std::bit_cast<T*>(threads_[number * 32 + i]->value);
  };
  if (what == Meet::kMultiply) {
    std::array<TileProduct*, 32> lanes{};
    operands(lanes);
    Multiply(lanes);
  } else {
    std::array<MatrixLoad*, 32> lanes{};
    operands(lanes);
    Distribute(lanes, what == Meet::kLoadTransposed);
  }
  for (int i = 0; i < 32; ++i) MakeReady(number * 32 + i);
}

uint64_t WarpMeet(Meet what, unsigned mask, uint64_t value, int argument, int width, const char* file, int line) {
  return Executor::Get().WarpMeet(what, mask, value, argument, width, file, line);
}

}  // namespace kinora::simt
