// What a request may be, on a small description.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/request/model_description.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

ModelDescription Model() {
  ModelDescription model{.kind = "distilled",
                         .recipes = {Recipe::kDistilled},
                         .max_width = 256,
                         .max_height = 256,
                         .max_frames = 33,
                         .layers = 4,
                         .distilled_sigmas = {1, 0.5, 0}};
  model.defaults.width = model.defaults.height = 64;
  model.defaults.num_frames = 9;
  model.defaults.frame_rate = 24;
  return model;
}

TEST(RequestRules, SigmasThatDoNotDescendToZeroAreRefusedByName) {
  GenerationRequest request;
  request.sigmas = {1, 0.5, 0.25, 0};
  EXPECT_THAT(ResolveRequest(Model(), request), IsOk());
  const std::vector<double> bad[] = {{1.0}, {1.0, 1.0, 0.0}, {1.0, 0.5}, {1.5, 0.0}, {1.0, NAN, 0.0}};
  for (const std::vector<double>& sigmas : bad) {
    request.sigmas = sigmas;
    EXPECT_THAT(ResolveRequest(Model(), request), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("sigmas")));
  }
}

}  // namespace
}  // namespace kinora
