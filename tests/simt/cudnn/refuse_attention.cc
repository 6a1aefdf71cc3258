#include <string>

#include "tests/simt/cudnn/refusals.h"

namespace kinora::simt {

absl::Status Supports(const CudnnAttention& a) {
  const auto refused = [](const char* why) {
    return absl::UnimplementedError(std::string("cuDNN has no engine for this attention: ") + why);
  };
  if (a.head_width % 8 != 0) return refused("heads that are not a multiple of 8 wide");
  if (a.heads % a.kv_heads != 0) return refused("the heads of keys do not divide those of queries");
  if (a.window > 0 && a.queries > a.keys) return refused("a window with more queries than keys");
  return absl::OkStatus();
}

}  // namespace kinora::simt
