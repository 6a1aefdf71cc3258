#include "engine/weights/precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

TEST(Precision, IsPrintedAsItIsParsed) {
  for (const char* text : {"f32", "bf16", "fp8", "bf16,vae.*=f32", "fp8,*.to_gate_logits.*=bf16,a=f32"}) {
    KINORA_ASSERT_OK_AND_ASSIGN(const Precision precision, Precision::Parse(text));
    EXPECT_EQ(precision.ToString(), text);
  }
  EXPECT_EQ(Precision::Parse("f32")->activations, DType::kF32);
  EXPECT_EQ(Precision::Parse("fp8")->activations, DType::kBF16);
  EXPECT_EQ(Precision::Parse("fp8")->weights, DType::kF8E4M3);
  EXPECT_EQ(*Precision::Parse("bf16"), Precision());
}

TEST(Precision, WhatIsMistypedIsNamed) {
  for (const char* text : {"", "f64", "bf16,", "bf16,vae.*", "bf16,vae.*=f64", "bf16,=f32", "BF16"}) {
    EXPECT_THAT(Precision::Parse(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("precision: "))) << text;
  }
}

TEST(Precision, TheFirstExceptionThatMatchesCounts) {
  KINORA_ASSERT_OK_AND_ASSIGN(const Precision precision,
                              Precision::Parse("fp8,*.blocks.0.*=bf16,*.to_gate.*=f32,*.blocks.*.ff*x=f32"));
  EXPECT_EQ(precision.Of("transformer.blocks.0.to_gate.weight"), DType::kBF16);
  EXPECT_EQ(precision.Of("transformer.blocks.10.to_gate.weight"), DType::kF32);
  EXPECT_EQ(precision.Of("transformer.blocks.10.to_q.weight"), DType::kF8E4M3);
  EXPECT_EQ(precision.Of("transformer.blocks.1.ff.x.x"), DType::kF32);
  EXPECT_EQ(precision.Of("transformer.blocks.1.ff.x.y"), DType::kF8E4M3);
  EXPECT_EQ(precision.Of(""), DType::kF8E4M3);
}

TEST(Precision, WhatABackendCannotMultiplyByIsRefusedByName) {
  KINORA_ASSERT_OK_AND_ASSIGN(const BackendTraits cpu, TraitsOf("cpu", {}));
  EXPECT_THAT(Precision::Parse("bf16,a=f32")->CheckOn(cpu), IsOk());
  for (const char* text : {"fp8", "bf16,a=fp8"}) {
    EXPECT_THAT(
        Precision::Parse(text)->CheckOn(cpu),
        StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("precision: fp8: not available on the device cpu")));
  }
}

}  // namespace
}  // namespace kinora
