// Measures how long calls on CUDA streams take on the device. The host cannot measure collectives, which wait for other
// ranks inside the call. A kernel stores the device's clock before and after each call, in graphs too. The host reads
// these stamps after it has waited for a stream anyway and never waits for a measurement.
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

// Used by one thread at a time. At most `places` calls, in graphs or in progress, are measured at once; others are not
// measured. For each call, the last kKept runs that the host has not yet waited for are measured.
class CallTimer : public WaitListener, public std::enable_shared_from_this<CallTimer> {
 public:
  using Took = std::function<void(absl::Duration)>;
  static constexpr int64_t kPlaces = 8192;  // 1.1 MB
  static constexpr int64_t kKept = 2 * Stream::kMarks;

  // Creates a timer on the current device. Fails with ResourceExhausted if there is no pinned memory for the stamps.
  static absl::StatusOr<std::shared_ptr<CallTimer>> Create(int64_t places = kPlaces);

  // Enqueues `call` on the stream between two stamps; in a capture they become part of the graph. Calls `took` with the
  // duration of each run once the stream has been waited for; everything that it uses must outlive the graph. Returns
  // the status of `call`, or the failure of a stamp.
  absl::Status Around(CudaStream& stream, absl::FunctionRef<absl::Status()> call, Took took);

  void OnReached() override;

 private:
  // The memory that a stamped call writes (kernels/stamp.h).
  struct Page {
    unsigned long long calls;
    unsigned long long nanoseconds[2 * kKept];
  };
  struct Site;

  CallTimer(Buffer memory, int64_t places);
  std::shared_ptr<Site> NewSite(Took took);  // null if all pages are in use
  void Read(Site& site);

  const Buffer memory_;
  Page* const pages_;
  std::vector<int64_t> free_;
  std::vector<std::weak_ptr<Site>> sites_;
  std::vector<std::shared_ptr<Site>> single_;  // calls outside graphs, until they have run
};

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CUDA_CALL_TIMER_H_
