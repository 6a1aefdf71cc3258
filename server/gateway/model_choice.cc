#include "server/gateway/model_choice.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "server/common/status_details.h"
#include "server/gateway/field_json.h"

namespace kinora {

absl::StatusOr<v1::ModelInfo> ChooseModel(const v1::ListModelsResponse& models, const std::string& asked) {
  if (models.models().empty()) {
    return WithRetryInfo(WithErrorInfo(absl::UnavailableError("no worker has loaded a model yet"), "NO_MODEL"),
                         absl::Seconds(2));
  }
  const std::string& name = asked.empty() ? models.default_model() : asked;
  if (name.empty() && models.models_size() == 1) return models.models(0);
  std::vector<std::string> ids;
  for (const v1::ModelInfo& model : models.models()) {
    if (model.id() == name) return model;
    ids.push_back(model.id());
  }
  const std::string known = absl::StrJoin(ids, ", ");
  if (name.empty()) return InvalidField("model", absl::StrCat("must be set, since there are several: ", known));
  return WithErrorInfo(
      absl::FailedPreconditionError(absl::StrCat("model: ", Shortened(name), " is not served here; there is ", known)),
      "MODEL_NOT_LOADED");
}

void ModelUnion::Add(const v1::ListModelsResponse& models) {
  for (const v1::ModelInfo& model : models.models()) {
    const auto same = [&model](const v1::ModelInfo& known) { return known.id() == model.id(); };
    if (std::none_of(all_.models().begin(), all_.models().end(), same)) *all_.add_models() = model;
  }
  if (models.default_model().empty()) return;
  defaults_differ_ |= !all_.default_model().empty() && all_.default_model() != models.default_model();
  all_.set_default_model(models.default_model());
}

v1::ListModelsResponse ModelUnion::Get() const {
  v1::ListModelsResponse all = all_;
  if (defaults_differ_) all.clear_default_model();
  return all;
}

}  // namespace kinora
