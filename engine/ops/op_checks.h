// The shape rules of ops.h as code, for backends to call before they compute. Each function CHECK-fails on a caller's
// mistake and names both shapes.
#ifndef KINORA_ENGINE_OPS_OP_CHECKS_H_
#define KINORA_ENGINE_OPS_OP_CHECKS_H_

#include "engine/ops/ops.h"

namespace kinora {

void CheckFloat(const Tensor& x);                       // f32 or bf16
void CheckSameShape(const Tensor& a, const Tensor& b);  // equal rows and widths, both floating point
void CheckRowWidth(const Tensor& x);                    // at most kMaxRowWidth columns
void CheckGroupNorm(const Tensor& x, const GroupNormParams& params, const Tensor* residual, const Tensor& out);
void CheckModulation(const Modulation& m, int slot, const Tensor& x);
void CheckResidualUpdate(int64_t rows, int64_t width, const ResidualUpdate& update);  // rows, width: the product's
void CheckMatmul(const Tensor& x, const Weight& w, const MatmulOptions& options, const Tensor& out);
void CheckAttention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options);
void CheckNeighbourhood(const Tensor& q, const Tensor& k, const Tensor& v, const NeighbourhoodOptions& o,
                        const Tensor& out);
void CheckNormRope(const Tensor& x, const NormRopeParams& params, const Tensor* sum_of_squares);
void CheckQkvBlocks(const QkvParts& parts, const Tensor& blocks);
void CheckHeadBlocks(const HeadBlocks& from, const Tensor* logits, const Tensor& x);
void CheckConv(const Tensor& x, const Weight& w, const ConvOptions& options, const Tensor& out);
void CheckDepthToSpace(const Tensor& x, const DepthToSpaceOptions& options, const Tensor& out);
void CheckSpaceToDepth(const Tensor& x, const SpaceToDepthOptions& options, const Tensor& out);
void CheckRepeatNearest(const Tensor& x, const SpaceTime& factor, const Tensor& out);
void CheckBlur(const Tensor& x, const Tensor& filter, int stride, const Tensor& out);
void CheckAddTile(const Tensor& tile, const TileBlend& blend, const Tensor& sums);
void CheckFinishRgb8(const Tensor& sums, const Rgb8Options& options, const Tensor& rgb8);
void CheckPointwise(const Tensor& x, const Tensor& out);
void CheckRopeTable(const RopeAngles& angles, const Tensor& cos, const Tensor& sin);
void CheckSnake(const Tensor& x, const AntiAliasedSnake& snake, const Tensor& out);
void CheckMagnitude(const Tensor& x, const Tensor& out);
void CheckGuidance(const Tensor& x0, const Tensor& weights, int cond, const Tensor& out);
void CheckPrediction(const Prediction& prediction, const Tensor& sigmas, const Tensor& z);

// Returns the number of positions that a convolution yields along one axis of `extent`; CHECK-fails if there is none or
// if reflection would leave the axis.
int64_t ConvExtent(int64_t extent, const ConvAxis& axis);

// Returns the number of keys per sequence that queries attend to: options.key_length, or all.
int64_t KeysThatCount(const Tensor& k, const AttentionOptions& options);

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_OP_CHECKS_H_
