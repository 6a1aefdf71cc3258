// The predictor of a clip's duration (LTX-2.5, ltx_core/duration_head/model_configurator.py).
#ifndef KINORA_ENGINE_CONFIG_DURATION_HEAD_CONFIG_H_
#define KINORA_ENGINE_CONFIG_DURATION_HEAD_CONFIG_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace kinora {

struct DurationHeadConfig {
  int64_t video_width = 4096, audio_width = 2048;  // of the contexts
  int64_t hidden = 256;
  int64_t queries = 1;
  int64_t heads = 4;
  int64_t mlp_hidden = 256;
  friend bool operator==(const DurationHeadConfig&, const DurationHeadConfig&) = default;
};

// config: the text of a file's metadata `config`. The widths are those of its section `transformer`, everything else of
// `duration_head`; absent fields and sections have the values above. Fails with InvalidArgument naming the fields.
absl::StatusOr<DurationHeadConfig> ParseDurationHeadConfig(std::string_view config);

}  // namespace kinora

#endif  // KINORA_ENGINE_CONFIG_DURATION_HEAD_CONFIG_H_
