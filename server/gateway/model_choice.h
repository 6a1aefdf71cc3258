// Which model makes a clip, by the frontend's rules for requests that name none.
#ifndef KINORA_SERVER_GATEWAY_MODEL_CHOICE_H_
#define KINORA_SERVER_GATEWAY_MODEL_CHOICE_H_

#include <string>

#include "absl/status/statusor.h"
#include "kinora/v1/video_generation.pb.h"

namespace kinora {

// Returns the model `asked`; if that is "", the default or the only one. InvalidArgument: "" and there are several
// without a default; FailedPrecondition with MODEL_NOT_LOADED: it is not in the list; Unavailable with NO_MODEL: the
// list is empty.
absl::StatusOr<v1::ModelInfo> ChooseModel(const v1::ListModelsResponse& models, const std::string& asked);

// Adds the models of another frontend; those with a known ID are left out. The default of several frontends is that of
// those that have one; if they differ, there is none.
class ModelUnion {
 public:
  void Add(const v1::ListModelsResponse& models);
  v1::ListModelsResponse Get() const;

 private:
  v1::ListModelsResponse all_;
  bool defaults_differ_ = false;
};

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_MODEL_CHOICE_H_
