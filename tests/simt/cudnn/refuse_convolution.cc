#include "absl/strings/str_cat.h"
#include "tests/simt/cudnn/refusals.h"

namespace kinora::simt {

absl::Status Supports(const CudnnConvolution& c) {
  const auto refused = [](const char* why) {
    return absl::UnimplementedError(absl::StrCat("cuDNN has no engine for this convolution: ", why));
  };
  if (c.dtype != DType::kBF16) return refused("not bf16");
  return absl::OkStatus();
}

}  // namespace kinora::simt
