// Heads from several ranks, joined and gated, against the definition in double precision.
#include "kernels/join_heads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "tests/kernels/matrix.h"

namespace kinora::kernels {
namespace {

constexpr Type kF32 = Type::kF32, kBf16 = Type::kBf16;

struct Form {
  std::string name;
  int64_t rows = 8, ranks = 2, each = 64, sequence = 4;  // columns of each rank's blocks; rows of a sequence
  int64_t first_block = 0, block_rows = 8, first_value = 0, value_rows = 0;
  int64_t head = 32;  // 0: no gates
  int64_t gap = 0;
  Type type = kBf16, logits = kF32;
  int64_t width() const { return ranks * each; }
};
void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }

class JoinHeadsTest : public OnAStream, public testing::WithParamInterface<Form> {};

TEST_P(JoinHeadsTest, IsItsDefinition) {
  const Form& f = GetParam();
  const int64_t width = f.width(), heads = f.head > 0 ? width / f.head : 1;
  const Floats old = Values(f.rows * width, 1, f.type), blocks = Values(f.block_rows * width, 2, f.type);
  const int64_t value_rows = std::max<int64_t>(1, f.value_rows);
  const Floats values = Values(value_rows * width, 3, f.type), logits = Values(f.rows * heads, 4, f.logits);
  const Matrix out(old, f.rows, width, f.gap, f.type, stream_);
  const Matrix dblocks(blocks, f.block_rows * f.ranks, f.each, 0, f.type, stream_);
  const Matrix dvalues(values, value_rows, width, f.gap, f.type, stream_);
  const Matrix dlogits(logits, f.rows, heads, 0, f.logits, stream_);
  JoinHeads args{.rows = f.rows, .width = width, .out = out.rows()};
  args.blocks = {.data = dblocks.rows().data, .stride = f.each, .rows = f.sequence, .width = f.each, .count = f.ranks};
  args.first_block = f.first_block, args.block_rows = f.block_rows;
  if (f.value_rows > 0) args.values = dvalues.rows();
  args.first_value = f.first_value, args.value_rows = f.value_rows;
  if (f.head > 0) args.logits = dlogits.rows();
  args.head_width = f.head;
  Floats expected(f.rows * width);
  for (int64_t i = 0; i < f.rows * width; ++i) {
    const int64_t row = i / width, column = i % width, sent = row - f.first_block, value = row - f.first_value;
    double v = old[i];
    if (sent >= 0 && sent < f.block_rows) {
      const int64_t block = sent / f.sequence * f.ranks + column / f.each;
      v = blocks[(block * f.sequence + sent % f.sequence) * f.each + column % f.each];
    }
    if (value >= 0 && value < f.value_rows) v = values[value * width + column];
    if (f.head > 0) v *= 2 / (1 + std::exp(-static_cast<double>(logits[row * heads + column / f.head])));
    expected[i] = static_cast<float>(v);
  }
  ASSERT_EQ(LaunchJoinHeads(args, stream_), cudaSuccess);
  ExpectNear(out.Read(), expected, f.type, "out");
  EXPECT_EQ(simt::Failure(), "");
}

const Form kForms[] = {
    {.name = "TwoSequences"},
    {.name = "OneSequenceOfManyRanks", .ranks = 8, .sequence = 8, .type = kF32},
    {.name = "NoGates", .head = 0},
    {.name = "ValuesInTheMiddle", .rows = 12, .block_rows = 12, .first_value = 4, .value_rows = 4},
    {.name = "ValuesBeforeTheBlocks", .rows = 12, .first_block = 4, .value_rows = 4},
    {.name = "RowsThatStay", .rows = 13, .first_block = 1, .first_value = 10, .value_rows = 2, .gap = 8},
    {.name = "OddColumns", .ranks = 3, .each = 15, .head = 5, .gap = 3},
    {.name = "OddColumnsOfFloats", .ranks = 2, .each = 21, .head = 7, .type = kF32},
    {.name = "NarrowHeads", .each = 24, .head = 4},
    {.name = "NarrowLogits", .logits = kBf16},
    {.name = "ReleasedHeads", .ranks = 4, .each = 1024, .head = 128},
};
INSTANTIATE_TEST_SUITE_P(Forms, JoinHeadsTest, testing::ValuesIn(kForms),
                         [](const auto& info) { return info.param.name; });

TEST_F(OnAStream, WrongBlocksAreRefused) {
  const Matrix x(Values(64, 1), 4, 16, 0, kF32, stream_), y(Values(64, 1), 4, 16, 0, kF32, stream_);
  JoinHeads args{.rows = 4, .width = 16, .out = x.rows(), .block_rows = 4};
  args.blocks = {.data = y.rows().data, .stride = 8, .rows = 2, .width = 8, .count = 2};
  EXPECT_EQ(LaunchJoinHeads(args, stream_), cudaSuccess);
  for (int64_t Blocks::*const member : {&Blocks::rows, &Blocks::width, &Blocks::count}) {
    JoinHeads wrong = args;
    wrong.blocks.*member = 3;
    EXPECT_EQ(LaunchJoinHeads(wrong, stream_), cudaErrorInvalidValue);
  }
  args.first_block = 1;
  EXPECT_EQ(LaunchJoinHeads(args, stream_), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace kinora::kernels
