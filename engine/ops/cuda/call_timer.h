// How long calls on CUDA streams take on the device: of collectives, which wait for other ranks within, the host sees
// nothing. A stamp of the device's clock stands before and behind each, in graphs too; they are read after the host has
// waited for a stream anyway, and nothing ever waits for a measurement.
#ifndef KINORA_ENGINE_OPS_CUDA_CALL_TIMER_H_
#define KINORA_ENGINE_OPS_CUDA_CALL_TIMER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/ops/cuda/cuda_stream.h"
#include "engine/tensor/buffer.h"

namespace kinora {

// One thread at a time. Of the calls in graphs and under way as many are measured at once as there are places, of each
// one's runs that the host has not waited for the last kKept.
class CallTimer : public WaitListener, public std::enable_shared_from_this<CallTimer> {
 public:
  using Took = std::function<void(absl::Duration)>;
  static constexpr int64_t kPlaces = 8192;  // 1.1 MB
  static constexpr int64_t kKept = 2 * Stream::kMarks;

  // On the current device. ResourceExhausted: no pinned memory for the stamps.
  static absl::StatusOr<std::shared_ptr<CallTimer>> Create(int64_t places = kPlaces);

  // Enqueues `call` on the stream between two stamps; in a capture they are part of the graph. `took` hears of each run
  // once the stream was waited for; what it uses outlives the graph. What `call` answers, or that a stamp failed.
  absl::Status Around(CudaStream& stream, absl::FunctionRef<absl::Status()> call, Took took);

  void OnReached() override;

 private:
  // What a stamped call writes: kernels/stamp.h.
  struct Page {
    unsigned long long calls;
    unsigned long long nanoseconds[2 * kKept];
  };
  struct Site;

  CallTimer(Buffer memory, int64_t places);
  std::shared_ptr<Site> NewSite(Took took);  // null: all are in use
  void Read(Site& site);

  const Buffer memory_;
  Page* const pages_;
  std::vector<int64_t> free_;
  std::vector<std::weak_ptr<Site>> sites_;
  std::vector<std::shared_ptr<Site>> single_;  // not in a graph, until they have run
};

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CUDA_CALL_TIMER_H_
