#include "engine/config/duration_head_config.h"

#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/config/config_fields.h"
#include "engine/weights/json_text.h"

namespace kinora {

absl::StatusOr<DurationHeadConfig> ParseDurationHeadConfig(std::string_view config) {
  KINORA_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJsonText(config, "configuration"));
  ConfigProblems problems;
  const ConfigFields root(&json, "config", &problems);
  const ConfigFields transformer = root.Object("transformer"), head = root.Object("duration_head");
  DurationHeadConfig c;
  transformer.Read("cross_attention_dim", &c.video_width, kMaxWidth);
  transformer.Read("audio_cross_attention_dim", &c.audio_width, kMaxWidth);
  head.Read("pooler_hidden_dim", &c.hidden, kMaxWidth);
  head.Read("num_queries", &c.queries, kMaxHeads);
  head.Read("num_pooler_heads", &c.heads, kMaxHeads);
  head.Read("mlp_hidden", &c.mlp_hidden, kMaxWidth);
  const int64_t head_dim = c.hidden / c.heads;
  if (c.hidden % c.heads != 0 || head_dim % 8 != 0 || head_dim > kMaxHeadDim) {
    head.Problem("num_pooler_heads", Cat(c.heads, " heads of ", c.hidden,
                                         " columns: a head must have a multiple of 8, ", "at most ", kMaxHeadDim));
  }
  if (c.hidden * c.queries > kMaxWidth) head.Problem("num_queries", Cat(c.queries, " are too many"));
  KINORA_RETURN_IF_ERROR(problems.status());
  return c;
}

}  // namespace kinora
