// Ranges of the host's threads for a profiler, which shows the work that a thread enqueues under the ranges that it is
// in. A backend whose profiler listens registers a sink; without one, a range costs one load.
#ifndef KINORA_ENGINE_BASE_RANGE_SINK_H_
#define KINORA_ENGINE_BASE_RANGE_SINK_H_

#include <atomic>
#include <cstdint>

namespace kinora {

// Called by the threads that are in the ranges; the ranges of one thread nest.
class RangeSink {
 public:
  virtual ~RangeSink() = default;
  // name: a kind, such as "step". number: from 1 for a step, from 0 for a block; −1: none.
  virtual void Enter(const char* name, int64_t number) = 0;
  virtual void Leave() = 0;  // the range that the thread entered last
};

namespace internal {
inline std::atomic<RangeSink*> g_range_sink = nullptr;
}  // namespace internal

// The sink of the ranges that begin now. Null: none.
inline RangeSink* CurrentRangeSink() { return internal::g_range_sink.load(std::memory_order_acquire); }
// Sends ranges that begin from now on to `sink`, which must outlive them. Null: to none.
inline void SetRangeSink(RangeSink* sink) { internal::g_range_sink.store(sink, std::memory_order_release); }

// The calling thread is in a range while this lives. sink: as CurrentRangeSink returns it.
class HostRange {
 public:
  HostRange(RangeSink* sink, const char* name, int64_t number = -1) : sink_(sink) {
    if (sink_ != nullptr) sink_->Enter(name, number);
  }
  ~HostRange() {
    if (sink_ != nullptr) sink_->Leave();
  }
  HostRange(const HostRange&) = delete;
  HostRange& operator=(const HostRange&) = delete;

 private:
  RangeSink* const sink_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_BASE_RANGE_SINK_H_
