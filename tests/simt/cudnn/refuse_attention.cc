#include <string>

#include "tests/simt/cudnn/refusals.h"

namespace kinora::simt {
namespace {

constexpr int64_t kElementsOf16Bytes = 8;

bool Aligned(const HeadStrides& s) {
  return s.batch % kElementsOf16Bytes == 0 && s.head % kElementsOf16Bytes == 0 && s.row % kElementsOf16Bytes == 0;
}

}  // namespace

absl::Status Supports(const CudnnAttention& a, int major) {
  const auto refused = [](const char* why) {
    return absl::UnimplementedError(std::string("cuDNN has no engine for this attention: ") + why);
  };
  const int64_t widest = major == 9 ? 256 : 128;
  if (a.head_width % 8 != 0 || a.head_width > widest)
    return refused("heads are a multiple of 8 wide, at most 256 or 128");
  if (a.queries == 1 && a.keys == 1) return refused("one query and one key");
  if (a.heads % a.kv_heads != 0) return refused("the heads of keys do not divide those of queries");
  if (a.window > 0 && a.queries > a.keys && a.queries % 128 == 0)
    return refused("a window with more queries than keys");
  for (const HeadStrides& s : {a.q, a.k, a.v, a.out}) {
    if (!Aligned(s)) return refused("rows that are not aligned to 16 bytes");
  }
  return absl::OkStatus();
}

}  // namespace kinora::simt
