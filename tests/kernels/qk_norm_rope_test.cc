// Norm and rotation of queries and keys in all their forms, against the definition in double precision.
#include "kernels/qk_norm_rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/matrix.h"

namespace kinora::kernels {
namespace {

enum class Sums : uint8_t { kComputed, kGiven };

// One tensor. head = 0: not rotated; group = 0: not normalised; table_rows = 0: equal to rows.
struct Side {
  int64_t rows = 4, heads = 2, head = 128;
  int64_t group = 0;
  int64_t table_rows = 0;
  bool shared_tables = false;
  Sums sums = Sums::kComputed;
  int64_t gap = 0;
  int64_t width = 0;        // used if head is 0
  int64_t frame_width = 0;  // pairs that turn by tables of frames; 0: none
  int64_t columns() const { return head > 0 ? heads * head : width; }
};

struct Form {
  std::string name;
  Side q, k{.rows = 0};  // k is absent if it has no rows
  Type type = Type::kBf16;
};
void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }

// The values of a Side on the host and on the device.
class Data {
 public:
  Data(const Side& s, int salt, Type type, cudaStream_t stream)
      : s_(s),
        type_(type),
        table_rows_(s.table_rows > 0 ? s.table_rows : s.rows),
        table_width_(s.shared_tables ? s.head / 2 : s.columns() / 2),
        x_(Values(s.rows * s.columns(), salt, type)),
        weight_(Values(s.group, salt + 1)),
        cos_(Values(s.head > 0 ? table_rows_ * table_width_ : 0, salt + 2)),
        sin_(Values(static_cast<int64_t>(cos_.size()), salt + 3)),
        frame_cos_(Values(Frames() * s.frame_width, salt + 5)),
        frame_sin_(Values(Frames() * s.frame_width, salt + 6)) {
    if (s.sums == Sums::kGiven) {
      sums_ = Values(s.rows * (s.columns() / s.group), salt + 4);
      for (float& sum : sums_) sum = 100 * (sum + 2);
    }
    dx_ = std::make_unique<Matrix>(x_, s.rows, s.columns(), s.gap, type, stream);
    for (const Floats* values : {&weight_, &cos_, &sin_, &sums_, &frame_cos_, &frame_sin_}) {
      arrays_.push_back(values->empty() ? nullptr : std::make_unique<DeviceArray<float>>(*values, stream));
    }
  }

  NormRope Args() const {
    const auto at = [&](int i) { return arrays_[i] == nullptr ? nullptr : arrays_[i]->data(); };
    NormRope a{.rows = s_.rows, .width = s_.columns(), .x = dx_->rows(), .weight = at(0), .group = s_.group};
    a.full_group = FullGroup();
    a.sums = at(3);
    a.cos = at(1);
    a.sin = at(2);
    if (s_.head > 0) {
      a.table_rows = table_rows_;
      a.table_width = table_width_;
      a.head_width = s_.head;
    }
    if (s_.frame_width > 0) {
      a.frame_cos = at(4);
      a.frame_sin = at(5);
      a.frames = Frames();
      a.frame_width = s_.frame_width;
    }
    return a;
  }

  Floats Expected() const {
    const int64_t width = s_.columns();
    Floats out(x_.size());
    for (int64_t r = 0; r < s_.rows; ++r) {
      std::vector<double> row(width);
      for (int64_t c = 0; c < width; ++c) row[c] = Normed(r, c);
      for (int64_t c = 0; c < width; ++c) out[r * width + c] = static_cast<float>(Rotated(row, r, c));
    }
    return out;
  }
  Floats Read() const { return dx_->Read(); }

 private:
  int64_t Frames() const { return (s_.rows + table_rows_ - 1) / table_rows_; }
  int64_t FullGroup() const { return s_.sums == Sums::kGiven ? 4 * s_.group : s_.group; }
  double Normed(int64_t r, int64_t c) const {
    const double v = x_[r * s_.columns() + c];
    if (s_.group == 0) return v;
    const int64_t g = c / s_.group;
    double sum = 0;
    for (int64_t i = g * s_.group; i < (g + 1) * s_.group; ++i) {
      sum += static_cast<double>(x_[r * s_.columns() + i]) * x_[r * s_.columns() + i];
    }
    if (!sums_.empty()) sum = sums_[r * (s_.columns() / s_.group) + g];
    return v / std::sqrt(sum / static_cast<double>(FullGroup()) + 1e-6) * weight_[c % s_.group];
  }
  double Rotated(const std::vector<double>& row, int64_t r, int64_t c) const {
    if (s_.head == 0) return row[c];
    const int64_t half = s_.head / 2, head = c / s_.head, j = c % half;
    const int64_t at = r % table_rows_ * table_width_ + (s_.shared_tables ? j : head * half + j);
    const double low = row[head * s_.head + j], high = row[head * s_.head + half + j];
    const int64_t frame = r / table_rows_ * s_.frame_width + j;
    const double cos = j < s_.frame_width ? frame_cos_[frame] : cos_[at];
    const double sin = j < s_.frame_width ? frame_sin_[frame] : sin_[at];
    return c % s_.head < half ? low * cos - high * sin : high * cos + low * sin;
  }

  const Side s_;
  const Type type_;
  const int64_t table_rows_, table_width_;
  Floats x_, weight_, cos_, sin_, sums_, frame_cos_, frame_sin_;
  std::unique_ptr<Matrix> dx_;
  std::vector<std::unique_ptr<DeviceArray<float>>> arrays_;
};

class QkNormRopeTest : public OnAStream, public testing::WithParamInterface<Form> {};

TEST_P(QkNormRopeTest, IsItsDefinition) {
  const Form& f = GetParam();
  const Data q(f.q, 1, f.type, stream_);
  std::unique_ptr<Data> k;
  if (f.k.rows > 0) k = std::make_unique<Data>(f.k, 11, f.type, stream_);
  ASSERT_EQ(LaunchQkNormRope(q.Args(), k != nullptr ? k->Args() : NormRope{}, stream_), cudaSuccess);
  ExpectNear(q.Read(), q.Expected(), f.type, "q");
  if (k != nullptr) ExpectNear(k->Read(), k->Expected(), f.type, "k");
  EXPECT_EQ(simt::Failure(), "");
}

constexpr Type kF32 = Type::kF32;
const Form kForms[] = {
    {.name = "VideoSelf", .q = {.heads = 32, .group = 4096}, .k = {.heads = 32, .group = 4096}},
    {.name = "AudioSelf", .q = {.heads = 32, .head = 64, .group = 2048}, .k = {.heads = 32, .head = 64, .group = 2048}},
    {.name = "MoreQueriesThanKeys",
     .q = {.rows = 9, .heads = 4, .head = 64, .group = 256},
     .k = {.rows = 3, .heads = 4, .head = 64, .group = 256, .gap = 16}},
    {.name = "MoreKeysThanQueriesOfAnotherWidth",
     .q = {.rows = 2, .heads = 8, .head = 64, .group = 512},
     .k = {.rows = 7, .heads = 2, .head = 128, .group = 256}},
    {.name = "PassesShareTables",
     .q = {.rows = 12, .heads = 2, .group = 256, .table_rows = 3},
     .k = {.rows = 6, .heads = 2, .group = 256, .table_rows = 6}},
    {.name = "MorePassesThanABlockTakes", .q = {.rows = 22, .heads = 1, .group = 128, .table_rows = 2}},
    {.name = "OneTableRow", .q = {.rows = 5, .heads = 1, .group = 128, .table_rows = 1}},
    {.name = "TablesSharedByHeads",
     .q = {.heads = 4, .group = 512, .shared_tables = true},
     .k = {.heads = 2, .group = 256, .shared_tables = true}},
    {.name = "GemmaHeads",
     .q = {.heads = 4, .head = 256, .group = 256, .shared_tables = true},
     .k = {.heads = 2, .head = 256, .group = 256, .shared_tables = true}},
    {.name = "GemmaWideHeads",
     .q = {.heads = 3, .head = 512, .group = 512, .shared_tables = true},
     .k = {.heads = 1, .head = 512, .group = 512, .shared_tables = true}},
    {.name = "FrameTables",
     .q = {.rows = 21, .heads = 4, .head = 64, .group = 64, .table_rows = 3, .shared_tables = true, .frame_width = 8},
     .k = {.rows = 6, .heads = 2, .head = 64, .group = 64, .table_rows = 3, .shared_tables = true, .frame_width = 8}},
    {.name = "FrameTablesBesideNone",
     .q = {.rows = 6, .heads = 2, .head = 64, .group = 64, .table_rows = 2, .shared_tables = true, .frame_width = 16},
     .k = {.rows = 6, .heads = 2, .head = 64, .group = 64, .table_rows = 2, .shared_tables = true}},
    {.name = "FrameTablesForAllPairs",
     .q = {.rows = 6, .heads = 2, .head = 32, .table_rows = 2, .shared_tables = true, .frame_width = 16}},
    {.name = "FrameTablesOfOneFrame",
     .q = {.rows = 5, .heads = 2, .head = 32, .group = 64, .shared_tables = true, .frame_width = 8}},
    {.name = "FrameTablesOfALastFrameWithFewerRows",
     .q = {.rows = 7, .heads = 2, .head = 32, .group = 64, .table_rows = 3, .shared_tables = true, .frame_width = 8}},
    {.name = "FrameTablesOfOddWidth",
     .q = {.rows = 8, .heads = 3, .head = 32, .group = 32, .table_rows = 2, .shared_tables = true, .frame_width = 5},
     .k = {.rows = 4, .heads = 3, .head = 32, .group = 32, .table_rows = 2, .shared_tables = true, .frame_width = 5}},
    {.name = "FrameTablesOfOddHeads",
     .q = {.rows = 6, .heads = 3, .head = 10, .group = 30, .table_rows = 2, .shared_tables = true, .frame_width = 2}},
    {.name = "NarrowHeads", .q = {.heads = 3, .head = 16, .group = 16}},
    {.name = "HeadsOf48", .q = {.heads = 5, .head = 48, .group = 240}},
    {.name = "NormedHeadsOf48", .q = {.heads = 5, .head = 48, .group = 48}},
    {.name = "SixtyFourHeads", .q = {.rows = 2, .heads = 64, .group = 8192}},
    {.name = "WidestRow", .q = {.rows = 2, .heads = 128, .group = 16384}, .k = {.rows = 2, .heads = 1, .group = 128}},
    {.name = "WidestNormedHeads", .q = {.rows = 2, .heads = 128, .group = 128}},
    {.name = "WiderThanVectors", .q = {.rows = 1, .heads = 129, .group = 16512}},
    {.name = "GivenSums",
     .q = {.heads = 4, .group = 512, .sums = Sums::kGiven},
     .k = {.rows = 3, .heads = 4, .head = 64, .group = 256, .sums = Sums::kGiven}},
    {.name = "GivenSumsOfTwoHeads", .q = {.heads = 4, .head = 64, .group = 128, .sums = Sums::kGiven}},
    {.name = "ComputedSumsOfTwoHeads", .q = {.heads = 4, .head = 64, .group = 128}},
    {.name = "GivenSumsOfOddWidth", .q = {.heads = 3, .head = 10, .group = 30, .sums = Sums::kGiven}},
    {.name = "NormAlone", .q = {.rows = 6, .head = 0, .group = 2048, .width = 2048}},
    {.name = "NormAloneOfHeads", .q = {.rows = 6, .head = 0, .group = 64, .width = 512}},
    {.name = "NormAloneOfOddWidth", .q = {.rows = 3, .head = 0, .group = 37, .width = 37}},
    {.name = "RotationAlone", .q = {.rows = 6, .heads = 3}, .k = {.rows = 6, .heads = 3}},
    {.name = "RotationAloneOfOddHeads", .q = {.rows = 3, .heads = 3, .head = 6, .gap = 1}},
    {.name = "NormedOrRotated", .q = {.heads = 2, .head = 0, .group = 256, .width = 256}, .k = {.heads = 2}},
    {.name = "OddHeads", .q = {.heads = 3, .head = 6, .group = 18}, .k = {.heads = 40, .head = 10, .group = 10}},
    {.name = "OddGap", .q = {.heads = 2, .group = 256, .gap = 3}},
    {.name = "PassesOfOddHeadsShareTables", .q = {.rows = 6, .heads = 3, .head = 6, .group = 18, .table_rows = 3}},
    {.name = "VectorsBesideElements", .q = {.heads = 2, .group = 256}, .k = {.heads = 2, .group = 256, .gap = 5}},
    {.name = "Float", .q = {.heads = 4, .group = 512}, .k = {.heads = 4, .head = 64, .group = 64}, .type = kF32},
    {.name = "FloatOdd", .q = {.heads = 4, .head = 14, .group = 56}, .type = kF32},
};
INSTANTIATE_TEST_SUITE_P(All, QkNormRopeTest, testing::ValuesIn(kForms),
                         [](const auto& info) { return info.param.name; });

TEST_F(OnAStream, QkNormRopeWorksOnColumnsOfOnePackedTensor) {
  constexpr int64_t kRows = 3, kInner = 128;
  const Floats packed = Values(kRows * 3 * kInner, 1, Type::kBf16), weight(kInner, 1.0f);
  const Matrix qkv(packed, kRows, 3 * kInner, 0, Type::kBf16, stream_);
  const DeviceArray<float> ones(weight, stream_);
  NormRope q{.rows = kRows, .width = kInner, .x = qkv.rows(), .weight = ones.data(), .group = kInner};
  q.full_group = kInner;
  NormRope k = q;
  k.x.data = static_cast<uint16_t*>(q.x.data) + kInner;
  ASSERT_EQ(LaunchQkNormRope(q, k, stream_), cudaSuccess);
  Floats expected = packed;
  for (int64_t part = 0; part < kRows * 3; ++part) {
    double sum = 0;
    for (int64_t i = 0; i < kInner; ++i)
      sum += packed[part * kInner + i] * static_cast<double>(packed[part * kInner + i]);
    for (int64_t i = 0; part % 3 < 2 && i < kInner; ++i) {
      expected[part * kInner + i] = static_cast<float>(packed[part * kInner + i] / std::sqrt(sum / kInner + 1e-6));
    }
  }
  const Floats got = qkv.Read();
  ExpectNear(got, expected, Type::kBf16, "qkv");
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t i = 2 * kInner; i < 3 * kInner; ++i)
      ASSERT_EQ(got[row * 3 * kInner + i], packed[row * 3 * kInner + i]);
  }
}

TEST_F(OnAStream, QkNormRopeRefusesWhatCannotBe) {
  const DeviceArray<float> memory(Floats(256, 1.0f), stream_), ones(Floats(256, 1.0f), stream_);
  const float* const floats = ones.data();
  NormRope good{.rows = 2, .width = 32, .x = {.data = memory.data(), .stride = 32}, .weight = floats, .group = 32};
  good.full_group = 32;
  good.cos = good.sin = floats;
  good.table_rows = 2;
  good.table_width = 16;
  good.head_width = 32;
  good.frame_cos = good.frame_sin = floats;
  good.frames = 1;
  good.frame_width = 8;
  ASSERT_EQ(LaunchQkNormRope(good, {}, stream_), cudaSuccess);
  const std::vector<std::pair<const char*, void (*)(NormRope&)>> mistakes = {
      {"no rows", [](NormRope& a) { a.rows = 0; }},
      {"too many rows", [](NormRope& a) { a.rows = int64_t{1} << 31; }},
      {"no columns", [](NormRope& a) { a.width = 0; }},
      {"no memory", [](NormRope& a) { a.x.data = nullptr; }},
      {"a group beside the width", [](NormRope& a) { a.group = 12; }},
      {"no group", [](NormRope& a) { a.group = 0; }},
      {"nothing to divide by", [](NormRope& a) { a.full_group = 0; }},
      {"cos alone", [](NormRope& a) { a.sin = nullptr; }},
      {"sin alone", [](NormRope& a) { a.cos = nullptr; }},
      {"an odd head", [](NormRope& a) { a.head_width = 1; }},
      {"a head beside the width", [](NormRope& a) { a.head_width = 20; }},
      {"no table", [](NormRope& a) { a.table_rows = 0; }},
      {"a table of another width", [](NormRope& a) { a.table_width = 8; }},
      {"frames without tables", [](NormRope& a) { a.cos = a.sin = nullptr; }},
      {"frame_cos alone", [](NormRope& a) { a.frame_sin = nullptr; }},
      {"frame_sin alone", [](NormRope& a) { a.frame_cos = nullptr; }},
      {"no pairs of frames", [](NormRope& a) { a.frame_width = 0; }},
      {"more pairs of frames than pairs", [](NormRope& a) { a.frame_width = 24; }},
      {"frames with tables of each head", [](NormRope& a) { a.head_width = 16; }},
      {"too few frames", [](NormRope& a) { a.table_rows = 1; }},
  };
  for (const auto& [what, make] : mistakes) {
    NormRope bad = good;
    make(bad);
    EXPECT_EQ(LaunchQkNormRope(bad, {}, stream_), cudaErrorInvalidValue) << what;
    if (bad.x.data == nullptr) continue;  // a k without memory is valid: it is absent
    EXPECT_EQ(LaunchQkNormRope(good, bad, stream_), cudaErrorInvalidValue) << what;
  }
  NormRope narrow = good;
  narrow.x.type = Type::kBf16;
  EXPECT_EQ(LaunchQkNormRope(good, narrow, stream_), cudaErrorInvalidValue);
  NormRope many{.rows = 1, .width = 1 << 16, .x = good.x, .weight = floats, .group = 1, .full_group = 1};
  EXPECT_EQ(LaunchQkNormRope(many, {}, stream_), cudaErrorInvalidValue) << "more groups than shared memory holds";
}

TEST_F(OnAStream, QkNormRopeToBlocksRefusesBlocksThatAreNotFilled) {
  const DeviceArray<float> memory(Floats(256, 1.0f), stream_), sent(Floats(256, 0.0f), stream_);
  NormRope good{.rows = 4, .width = 16, .x = {.data = memory.data(), .stride = 48}};
  good.to = {.data = sent.data(), .stride = 24, .rows = 2, .width = 8, .count = 2};
  NormRope k = good, v = good;  // beside q in its rows
  k.to.data = sent.data() + 8;
  v.to.data = sent.data() + 16;
  ASSERT_EQ(LaunchQkNormRopeToBlocks(good, k, v, stream_), cudaSuccess);
  const std::vector<std::pair<const char*, void (*)(NormRope&)>> mistakes = {
      {"in place", [](NormRope& a) { a.to.data = nullptr; }},
      {"no rows", [](NormRope& a) { a.to.rows = 0; }},
      {"a broken sequence", [](NormRope& a) { a.to.rows = 3; }},
      {"a stride below the width", [](NormRope& a) { a.to.stride = 7; }},
      {"a rank without columns", [](NormRope& a) { a.to.count = 3; }},
      {"another type", [](NormRope& a) { a.x.type = Type::kBf16; }},
  };
  for (const auto& [what, make] : mistakes) {
    NormRope bad = good;
    make(bad);
    EXPECT_EQ(LaunchQkNormRopeToBlocks(good, bad, good, stream_), cudaErrorInvalidValue) << what;
    EXPECT_EQ(LaunchQkNormRopeToBlocks(good, good, bad, stream_), cudaErrorInvalidValue) << what;
  }
  EXPECT_EQ(LaunchQkNormRope(good, {}, stream_), cudaErrorInvalidValue) << "blocks where there are none";
  EXPECT_EQ(simt::Failure(), "");
}

}  // namespace
}  // namespace kinora::kernels
