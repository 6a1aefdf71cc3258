#include "server/gateway/model_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/common/status_details.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

v1::ListModelsResponse Models(const std::vector<std::string>& ids, const std::string& default_model = "") {
  v1::ListModelsResponse models;
  for (const std::string& id : ids) models.add_models()->set_id(id);
  models.set_default_model(default_model);
  return models;
}

std::string Chosen(const v1::ListModelsResponse& models, const std::string& asked) {
  const absl::StatusOr<v1::ModelInfo> model = ChooseModel(models, asked);
  return model.ok() ? model->id() : model.status().ToString();
}

TEST(ModelChoiceTest, ARequestWithoutANameGetsTheOnlyOrDefaultModel) {
  EXPECT_EQ(Chosen(Models({"a"}), ""), "a");
  EXPECT_EQ(Chosen(Models({"a", "b"}, "b"), ""), "b");
  EXPECT_EQ(Chosen(Models({"a", "b"}, "b"), "a"), "a");
}

TEST(ModelChoiceTest, ARequestMustNameAModelIfThereAreSeveral) {
  EXPECT_THAT(ChooseModel(Models({"a", "b"}), ""),
              StatusIs(absl::StatusCode::kInvalidArgument, "model: must be set, since there are several: a, b"));
}

TEST(ModelChoiceTest, AModelThatIsNotServedIsNamed) {
  for (const auto& model : {ChooseModel(Models({"a", "b"}, "c"), ""), ChooseModel(Models({"a", "b"}), "c")}) {
    EXPECT_THAT(model,
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("c is not served here; there is a, b")));
    EXPECT_EQ(ErrorReason(model.status()), "MODEL_NOT_LOADED");
  }
  EXPECT_THAT(ChooseModel(Models({}, "c"), ""), StatusIs(absl::StatusCode::kUnavailable));
}

TEST(ModelChoiceTest, AUnionHasEachModelOnceAndTheDefaultOnWhichAllAgree) {
  ModelUnion all;
  all.Add(Models({"a", "b"}));
  all.Add(Models({"b", "c"}, "c"));
  EXPECT_EQ(all.Get().models_size(), 3);
  EXPECT_EQ(Chosen(all.Get(), ""), "c");
  all.Add(Models({"a"}));
  EXPECT_EQ(all.Get().default_model(), "c");
  all.Add(Models({"a"}, "a"));
  EXPECT_EQ(all.Get().models_size(), 3);
  EXPECT_THAT(ChooseModel(all.Get(), ""), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace kinora
