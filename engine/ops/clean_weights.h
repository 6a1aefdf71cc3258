// Copies of weights from before products were added to them, so that the next change of LoRAs starts from the copy
// instead of the file. On a CPU the file's pages are such copies already.
#ifndef KINORA_ENGINE_OPS_CLEAN_WEIGHTS_H_
#define KINORA_ENGINE_OPS_CLEAN_WEIGHTS_H_

#include <cstdint>

namespace kinora {

struct CleanMemory {
  int64_t device_bytes = 0;
  int64_t host_bytes = 0;  // pinned
  int64_t bytes() const { return device_bytes + host_bytes; }
  bool operator==(const CleanMemory&) const = default;
};

// Implemented by backends that keep such copies.
class KeepsCleanWeights {
 public:
  virtual ~KeepsCleanWeights() = default;
  // From now on, RewriteWeights copies a weight before it adds the first product: to the device while `most` has room
  // there, else to the host, else not at all. Only weights that hold the exact values of their rows are copied. Without
  // this call nothing is.
  virtual void KeepCleanWeights(const CleanMemory& most) = 0;
  virtual CleanMemory clean_weights() const = 0;  // in use
};

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CLEAN_WEIGHTS_H_
