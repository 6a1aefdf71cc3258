// What LTX-2.5 adds to the transformer, against Lightricks' code: a marker on the tokens of a clip's first latent
// frame, and a feed-forward without biases.
#include <gtest/gtest.h>

#include "engine/pipeline/velocity_model.h"
#include "tests/pipeline/transformer_golden.h"
#include "tests/testing/drawn_checkpoint.h"
#include "tests/testing/ranks.h"

namespace kinora {
namespace {

struct Ltx25 {
  Golden golden{"transformer_2_5"};
  DrawnCheckpoint checkpoint{golden};
  TransformerGolden transformer{golden, checkpoint.path()};
  ForwardCase c{.golden = golden};
};

void ExpectGolden(const Velocity& v, Golden& golden, double tolerance) {
  EXPECT_TRUE(Near(v.video, golden.Get("out.video"), tolerance));
  EXPECT_TRUE(Near(v.audio, golden.Get("out.audio"), tolerance));
}

class Ltx25Transformer : public OpTest {};
INSTANTIATE_TEST_SUITE_P(On, Ltx25Transformer, testing::ValuesIn(Backends()), BackendName);

TEST_P(Ltx25Transformer, VelocityEqualsTheReference) {
  Ltx25 model;
  model.c.on = GetParam();
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    SCOPED_TRACE(DTypeName(dtype));
    model.c.dtype = dtype;
    ExpectGolden(model.transformer.Single(model.c), model.golden, Tolerance(GetParam(), dtype));
  }
}

TEST_P(Ltx25Transformer, ACapturedStepEqualsAnEagerOneBitForBit) {
  Ltx25 model;
  model.c.on = GetParam();
  const Velocity eager = model.transformer.Single(model.c);
  model.c.capture = true;
  EXPECT_TRUE(model.transformer.Single(model.c) == eager);
}

// With four ranks, the marked tokens lie on two of them.
TEST(Ltx25Transformer, TokenAndTensorRanksEqualTheReference) {
  Ltx25 model;
  for (const MeshShape& shape : {MeshShape{.tokens = 2}, {.tokens = 4}, {.tensor = 2}, {.tokens = 2, .tensor = 2}}) {
    SCOPED_TRACE(shape.ToString());
    for (const Velocity& v :
         RunRanks<Velocity>(shape, [&](const Mesh& mesh) { return model.transformer.Run(mesh, model.c); })) {
      ExpectGolden(v, model.golden, Tolerance(TestBackend::kCpu, DType::kF32));
    }
  }
}

TEST(Ltx25Transformer, AnotherModelHasNoMarker) {
  Golden golden("transformer_2_3");
  const TransformerGolden t(golden);
  ForwardCase c{.golden = golden};
  const Velocity plain = t.Single(c);
  c.marked_tokens = 15;
  EXPECT_TRUE(t.Single(c) == plain);
}

}  // namespace
}  // namespace kinora
