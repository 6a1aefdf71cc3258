// The generations of the model, and what the reference's pipelines fix for each beside the configuration in its files
// (ltx_pipelines/utils/constants.py, ltx_pipelines/distilled.py).
#ifndef KINORA_ENGINE_CONFIG_FAMILY_DEFAULTS_H_
#define KINORA_ENGINE_CONFIG_FAMILY_DEFAULTS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace kinora {

inline constexpr std::string_view kLtx20 = "ltx-2.0", kLtx23 = "ltx-2.3", kLtx25 = "ltx-2.5";

struct FamilyDefaults {
  int32_t steps = 30;                // of the dev model
  int64_t stg_block = 28;            // of 48: the block that STG perturbs
  bool ancestral_distilled = false;  // the first stage of the distilled recipes adds noise in every step but the last
};
// family: one of the names above.
FamilyDefaults DefaultsOf(std::string_view family);

// Returns the default CRF of the H.264 pass of images (ConditionInput::crf): 18 if the file of the video VAE is of
// version 2.4 or later, else 33, also if the text is not a version.
int32_t ImageCrfOf(std::string_view model_version);

// Returns "ltx-2.3" for "2.3.0" or "2.3.rc1", "ltx-2.0" for "2.0", and "" for "". Fails with Unimplemented for other
// generations, and with InvalidArgument for what is no version.
absl::StatusOr<std::string> FamilyOfVersion(std::string_view model_version);

}  // namespace kinora

#endif  // KINORA_ENGINE_CONFIG_FAMILY_DEFAULTS_H_
