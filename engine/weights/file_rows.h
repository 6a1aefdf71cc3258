// Assembles rows of weights, as Ops::PrepareWeights requests them, from the tensors of a checkpoint. Thread-safe.
// Internal to the loader.
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
  std::optional<TensorSource> source;             // absent if no data is read (WeightLoader::reads)
  std::shared_ptr<std::atomic<bool>> not_finite;  // a value read was NaN or infinite
  const LowRankDelta* delta = nullptr;            // added to the values read

  absl::Status Read(const Block& block, DType dtype, void* out) const;  // requires source
};

// Returns the dtype for Read: kBF16 if it holds every value of all tensors, else kF32.
DType CommonType(absl::Span<const LocatedTensor> tensors);

// Reads rows [begin, end) of the stack of this rank's parts, `part` of each matrix.   to: [end − begin, part.columns]
absl::Status ReadStackedRows(absl::Span<const LocatedTensor> tensors, const Block& part, DType dtype, int64_t begin,
                             int64_t end, void* to);
// Reads rows [begin, end) of each wanted vector's matrix.   to: [vectors wanted, end − begin, in]
absl::Status ReadInterleavedRows(const LocatedTensor& tensor, const InterleavedSpec& spec, DType dtype, int64_t begin,
                                 int64_t end, void* to);
// Reads output channels [begin, end) in the wanted order.   to: [end − begin, taps, in]
absl::Status ReadConvRows(const LocatedTensor& tensor, const ConvSpec& spec, DType dtype, int64_t begin, int64_t end,
                          void* to);

// Returns the file's channel for channel `wanted` of `out` in the wanted order.
int64_t FileChannel(const ChannelOrder& order, int64_t out, int64_t wanted);

}  // namespace kinora

#endif  // KINORA_ENGINE_WEIGHTS_FILE_ROWS_H_
