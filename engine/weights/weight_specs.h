// The tensors that layers request from a checkpoint: their shapes in the file, and how to split, order and round them.
#ifndef KINORA_ENGINE_WEIGHTS_WEIGHT_SPECS_H_
#define KINORA_ENGINE_WEIGHTS_WEIGHT_SPECS_H_

#include <cstdint>
#include <optional>

#include "engine/ops/pixel_params.h"

namespace kinora {

enum class Split : uint8_t {
  kNone,     // every rank of mesh.tensor() holds the whole
  kRows,     // by out-features (first dimension); stacked matrices are split one by one, then the slices are stacked
  kColumns,  // matrices only: by in-features (last dimension); the products are summed over the ranks, so only rank 0
             // has the bias
};

struct WeightSpec {  // one linear layer, or several of one shape stacked because they read the same input
  int64_t out = 0;   // of each layer, before the split
  int64_t in = 0;
  bool bias = true;
  Split split = Split::kNone;
  std::optional<DType> precision = {};  // absent: the loader's
};

// The wanted order of a convolution's output channels, if they are moved to space-time afterwards, or rotated.
struct ChannelOrder {
  SpaceTime factor;  // file: (c, time, height, width); wanted, as Ops::DepthToSpace reads: (time, height, width, c)
  bool width_before_height = false;  // file: (c, time, width, height): the patches of the video VAE
  // The first `paired` channels are heads of `head_width`. File: the members of a pair are neighbours; wanted, as
  // Ops::NormRope reads: a head's first members, then its second ones.
  int64_t paired = 0, head_width = 0;
};

struct ConvSpec {
  int64_t out = 0;
  int64_t in = 0;
  Shape kernel;  // {}, {k}, {kh, kw} or {kt, kh, kw}; the file has [out, in, kernel…], Ops gets [out, taps, in]
  bool bias = true;
  ChannelOrder order = {};
  int64_t kept = 0;  // loads this many output channels, the file's first; 0: all. Not with an order.
  std::optional<DType> precision = {};

  int64_t wanted() const { return kept > 0 ? kept : out; }
};

struct TransposedConvSpec {  // 1-D, [in, out, kernel] in the file, padding (kernel − stride) / 2 on both sides
  int64_t out = 0;
  int64_t in = 0;
  int64_t kernel = 0;
  int64_t stride = 1;
  std::optional<DType> precision = {};
};
struct TensorSpec {
  Split split = Split::kNone;
  DType dtype = DType::kF32;  // kF32 or kBF16
  float add = 0;              // added to every element, before rounding: Gemma stores its norm weights minus one
};

struct InterleavedSpec {  // one linear layer over `count` vectors of `in` elements whose elements alternate
  int64_t out = 0;
  int64_t in = 0;
  int64_t count = 0;           // file: [out, in · count], column i · count + n belongs to vector n
  int64_t begin = 0, end = 0;  // the vectors wanted; rows are read whole, because their elements alternate
  bool bias = true;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_WEIGHTS_WEIGHT_SPECS_H_
