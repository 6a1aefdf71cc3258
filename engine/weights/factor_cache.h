// LoRA files that were put on lately, whole in host memory, so that putting them on again reads no file.
#ifndef KINORA_ENGINE_WEIGHTS_FACTOR_CACHE_H_
#define KINORA_ENGINE_WEIGHTS_FACTOR_CACHE_H_

#include <cstdint>
#include <list>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/weights/safetensors.h"

namespace kinora {

// Keeps at most so many bytes: those used longest ago go first. Thread-safe.
class FactorCache {
 public:
  struct Counts {
    int64_t hits = 0, misses = 0;  // of those that were counted
    int64_t bytes = 0;             // kept now
  };

  explicit FactorCache(int64_t max_bytes) : max_bytes_(max_bytes) {}

  // `file` as it lies in memory; itself if it is larger than all that is kept, or if there is no memory for it. The
  // other errors of SafetensorsFile::Loaded, whose on_piece is also called now and then while another caller reads.
  // counted: of several ranks that ask for one swap, one counts.
  absl::StatusOr<std::shared_ptr<const SafetensorsFile>> Get(const std::shared_ptr<const SafetensorsFile>& file,
                                                             bool counted, absl::FunctionRef<absl::Status()> on_piece);
  Counts counts() const;

 private:
  struct Kept {
    std::shared_ptr<const SafetensorsFile> file, loaded;
  };

  // What is kept; null: it is the caller's to read, and to end that with reading_.
  absl::StatusOr<std::shared_ptr<const SafetensorsFile>> FindOrBegin(const std::shared_ptr<const SafetensorsFile>& file,
                                                                     bool counted,
                                                                     absl::FunctionRef<absl::Status()> on_piece);

  const int64_t max_bytes_;
  mutable absl::Mutex mu_;
  bool reading_ ABSL_GUARDED_BY(mu_) = false;  // one at a time: whoever wants the same then finds it
  std::list<Kept> kept_ ABSL_GUARDED_BY(mu_);  // the last used first
  Counts counts_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kinora

#endif  // KINORA_ENGINE_WEIGHTS_FACTOR_CACHE_H_
