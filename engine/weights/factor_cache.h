// Keeps recently applied LoRA files in host memory, so that applying them again reads no file.
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

// Keeps at most max_bytes; evicts the least recently used files first. Thread-safe.
class FactorCache {
 public:
  struct Counts {
    int64_t hits = 0, misses = 0;  // of counted calls
    int64_t bytes = 0;             // kept now
  };

  explicit FactorCache(int64_t max_bytes) : max_bytes_(max_bytes) {}
  int64_t max_bytes() const { return max_bytes_; }

  // Returns a copy of `file` in memory, or `file` itself if it exceeds max_bytes or memory is short. Other errors as
  // SafetensorsFile::Loaded. Also calls on_piece at intervals while another caller loads. counted: whether Counts
  // includes the call; of several ranks that request one swap, one counts.
  absl::StatusOr<std::shared_ptr<const SafetensorsFile>> Get(const std::shared_ptr<const SafetensorsFile>& file,
                                                             bool counted, absl::FunctionRef<absl::Status()> on_piece);
  Counts counts() const;

 private:
  struct Kept {
    std::shared_ptr<const SafetensorsFile> file, loaded;
  };

  // Returns the kept copy, or `file` if it exceeds max_bytes; null if the caller must load it and then clear reading_.
  absl::StatusOr<std::shared_ptr<const SafetensorsFile>> FindOrBegin(const std::shared_ptr<const SafetensorsFile>& file,
                                                                     bool counted,
                                                                     absl::FunctionRef<absl::Status()> on_piece);

  const int64_t max_bytes_;
  mutable absl::Mutex mu_;
  bool reading_ ABSL_GUARDED_BY(mu_) = false;  // one load at a time, so that a waiter for the same file finds it
  std::list<Kept> kept_ ABSL_GUARDED_BY(mu_);  // most recently used first
  Counts counts_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kinora

#endif  // KINORA_ENGINE_WEIGHTS_FACTOR_CACHE_H_
