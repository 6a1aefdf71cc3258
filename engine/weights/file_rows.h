// Rows of weights as Ops::PrepareWeights asks for them, put together from the tensors of a checkpoint. Everything here
// is thread-safe. Internal to the loader.
#ifndef KINORA_ENGINE_WEIGHTS_FILE_ROWS_H_
#define KINORA_ENGINE_WEIGHTS_FILE_ROWS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/weights/tensor_source.h"
#include "engine/weights/weight_delta.h"
#include "engine/weights/weight_specs.h"

namespace kinora {

struct LocatedTensor {
  std::string name;  // canonical
  Shape full;
  std::optional<TensorSource> source;  // absent: a dry run, or a misfit has been noted and data is no longer read
  std::shared_ptr<std::atomic<bool>> not_finite;  // something was read that is NaN or infinite
  const LowRankDelta* delta = nullptr;            // added to what is read

  absl::Status Read(const Block& block, DType dtype, void* out) const;  // source must be there
};

// kBF16 if it holds every value of all of them, else kF32: what Read must be asked for.
DType CommonType(absl::Span<const LocatedTensor> tensors);

// Rows [begin, end) of the matrices stacked, of each of which `part` is this rank's.   to: [end − begin, part.columns]
absl::Status ReadStackedRows(absl::Span<const LocatedTensor> tensors, const Block& part, DType dtype, int64_t begin,
                             int64_t end, void* to);
// See InterleavedSpec.   to: [vectors wanted, end − begin, in]
absl::Status ReadInterleavedRows(const LocatedTensor& tensor, const InterleavedSpec& spec, DType dtype, int64_t begin,
                                 int64_t end, void* to);
// Output channels in the order wanted.   to: [end − begin, taps, in]
absl::Status ReadConvRows(const LocatedTensor& tensor, const ConvSpec& spec, DType dtype, int64_t begin, int64_t end,
                          void* to);

// The channel of the file that is wanted as the `wanted`-th of `out`.
int64_t FileChannel(const ChannelOrder& order, int64_t out, int64_t wanted);

}  // namespace kinora

#endif  // KINORA_ENGINE_WEIGHTS_FILE_ROWS_H_
