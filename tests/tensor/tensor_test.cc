// Tensor views, arenas, and restrictions during a capture.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "engine/tensor/arena.h"
#include "engine/tensor/cpu_stream.h"

namespace kinora {
namespace {

Tensor Of(std::vector<float>& values, const Shape& shape) { return Tensor(DType::kF32, shape, values.data()); }

TEST(Tensor, RowsAndColumnsAreViewsOfTheSameMemory) {
  std::vector<float> values(24);
  const Tensor t = Of(values, {2, 3, 4});
  t.Rows(1, 2).Columns(1, 3).data<float>()[0] = 5;
  EXPECT_EQ(values[13], 5);
  const Tensor columns = t.Columns(1, 3);
  EXPECT_EQ(columns.shape(), Shape({2, 3, 2}));
  EXPECT_EQ(columns.row_stride(), 4);
  EXPECT_FALSE(columns.contiguous());
  EXPECT_EQ(columns.Reshape({6, 2}).row_stride(), 4);
}

TEST(Tensor, AScalarAndAnAbsentTensorAreOneRowOfOneColumn) {
  float value = 3;
  for (const Tensor& t : {Tensor(), Tensor(DType::kF32, {}, &value)}) {
    EXPECT_EQ(t.width(), 1);
    EXPECT_EQ(t.rows(), 1);
    EXPECT_TRUE(t.contiguous());
    EXPECT_FALSE(t.defined());
  }
}

TEST(TensorDeathTest, AViewThatDoesNotFitNamesTheShape) {
  std::vector<float> values(6);
  const Tensor t = Of(values, {2, 3});
  EXPECT_DEATH(t.Rows(1, 3), "\\[2, 3\\]");
  EXPECT_DEATH(t.data<bf16>(), "f32");
  EXPECT_DEATH(t.Columns(0, 2).Reshape({4}), "keeps its width");
}

TEST(Bf16, RoundsToNearestEvenAndKeepsNan) {
  EXPECT_EQ(static_cast<float>(bf16(1.00390625f)), 1.0f);       // a tie, rounded to even
  EXPECT_EQ(static_cast<float>(bf16(1.01171875f)), 1.015625f);  // a tie, rounded to even
  EXPECT_TRUE(std::isnan(static_cast<float>(bf16(std::nanf("")))));
  EXPECT_TRUE(std::isinf(static_cast<float>(bf16(3.4e38f))));
}

TEST(Buffer, MemoryThatCannotBeHadIsAnErrorWithItsSize) {
  const auto buffer = Buffer::Allocate(int64_t{1} << 60);
  EXPECT_EQ(buffer.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(buffer.status().message().find("1152921504606846976"), absl::string_view::npos);
}

TEST(Arena, ScopesGiveTheirMemoryBackAndAddressesRepeat) {
  Arena arena(*Buffer::Allocate(4096));
  const Tensor kept = arena.Alloc(DType::kF32, {10});
  void* first = nullptr;
  for (int i = 0; i < 2; ++i) {
    ArenaScope scope(arena);
    const Tensor t = scope.Alloc(DType::kF32, {100});
    if (i == 0) first = t.raw();
    EXPECT_EQ(t.raw(), first);
    EXPECT_NE(t.raw(), kept.raw());
  }
  EXPECT_EQ(arena.used(), 64);
  EXPECT_EQ(arena.peak(), 64 + 448);
}

TEST(Arena, WhatFollowsLiesAboveAllThatWasInUse) {
  Arena arena = Arena::Dry();
  ArenaScope scope(arena);
  scope.Alloc(DType::kF32, {256});
  {
    ArenaScope inner(arena);
    inner.Alloc(DType::kF32, {1024});  // the peak
  }
  arena.KeepAllOf([&] {
    ArenaScope first(arena);
    first.Alloc(DType::kF32, {16});
    ArenaScope second(arena);
    second.Alloc(DType::kF32, {32});
  });
  EXPECT_EQ(arena.used(), 1024 + 64 + 128);
  EXPECT_EQ(arena.peak(), 1024 + 4096);
}

TEST(ArenaDeathTest, RunningOutIsAMistakeOfThePlan) {
  Arena arena(*Buffer::Allocate(128));
  EXPECT_DEATH(arena.Alloc(DType::kF32, {100}), "too small");
}

TEST(Arena, MemoryBehindTheAllocationsOutlivesScopes) {
  Arena arena(*Buffer::Allocate(4096));
  arena.EndAt(1024);
  const Tensor behind = arena.Behind(1024, DType::kF32, {768});
  behind.data<float>()[767] = 7;
  {
    ArenaScope scope(arena);
    const Tensor all = scope.Alloc(DType::kF32, {256});
    EXPECT_EQ(static_cast<char*>(behind.raw()) - static_cast<char*>(all.raw()), 1024);
    EXPECT_EQ(arena.used(), arena.capacity());
    EXPECT_DEATH(scope.Alloc(DType::kF32, {1}), "too small");
  }
  EXPECT_EQ(arena.Behind(1024, DType::kF32, {768}).data<float>()[767], 7);
  EXPECT_DEATH(arena.Behind(960, DType::kF32, {1}), "960");
  EXPECT_DEATH(arena.Behind(1024, DType::kF32, {769}), "1024");
  arena.EndAt(4096);
  EXPECT_EQ(arena.Alloc(DType::kF32, {1024}).bytes(), arena.bytes());
}

TEST(Arena, ADryOneMeasuresWithoutMemory) {
  Arena arena = Arena::Dry();
  EXPECT_EQ(arena.Alloc(DType::kBF16, {int64_t{1} << 40}).raw(), nullptr);
  EXPECT_EQ(arena.peak(), int64_t{1} << 41);
}

TEST(CpuStream, AGraphReplaysItsWorkOnWhateverTheMemoryHolds) {
  CpuStream stream;
  std::vector<float> from = {1, 2}, to = {0, 0};
  const auto graph = stream.Capture([&] { stream.Copy(Of(from, {2}), Of(to, {2})); });
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(to[0], 0);  // recorded, not executed
  from = {3, 4};
  (*graph)->Replay();
  EXPECT_EQ(to, from);
}

TEST(CpuStream, TouchingTheHostOrSynchronizingInsideACaptureIsAnError) {
  std::vector<float> host(2), device(2);
  const std::function<void(CpuStream&)> mistakes[] = {
      [&](CpuStream& s) { s.CopyFromHost(host.data(), Of(device, {2})); },
      [&](CpuStream& s) { s.CopyToHost(Of(device, {2}), host.data()); },
      [&](CpuStream& s) { s.Synchronize().IgnoreError(); },
      [&](CpuStream& s) { s.Fail(s.Capture([] {}).status()); },
  };
  for (const auto& mistake : mistakes) {
    CpuStream stream;
    EXPECT_EQ(stream.Capture([&] { mistake(stream); }).status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(stream.Synchronize().ok());  // errors are reported once
  }
}

TEST(CpuStream, TheFirstFailureSticksUntilItIsReportedAndStopsTheWorkAfterIt) {
  CpuStream stream;
  std::vector<float> from = {1}, to = {0};
  stream.Fail(absl::AbortedError("first"));
  stream.Fail(absl::InternalError("second"));
  stream.Copy(Of(from, {1}), Of(to, {1}));
  EXPECT_EQ(to[0], 0);
  EXPECT_EQ(stream.Capture([] {}).status().message(), "first");
  EXPECT_TRUE(stream.failed());
  stream.Copy(Of(from, {1}), Of(to, {1}));
  EXPECT_EQ(to[0], 0);
  EXPECT_EQ(stream.Synchronize().message(), "first") << "a capture has not taken it";
  EXPECT_FALSE(stream.failed());
  stream.Copy(Of(from, {1}), Of(to, {1}));
  EXPECT_EQ(to[0], 1);
}

}  // namespace
}  // namespace kinora
