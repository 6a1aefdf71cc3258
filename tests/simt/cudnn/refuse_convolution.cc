#include <string>

#include "tests/simt/cudnn/refusals.h"

namespace kinora::simt {

absl::Status Supports(const CudnnConvolution& c) {
  const auto refused = [](const char* why) {
    return absl::UnimplementedError(std::string("cuDNN has no engine for this convolution: ") + why);
  };
  if (c.dtype != DType::kBF16) return refused("not bf16");
  return absl::OkStatus();
}

}  // namespace kinora::simt
