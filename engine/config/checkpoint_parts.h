// Whether the files of a checkpoint make up a model: nothing is missing, and the parts belong together.
#ifndef KINORA_ENGINE_CONFIG_CHECKPOINT_PARTS_H_
#define KINORA_ENGINE_CONFIG_CHECKPOINT_PARTS_H_

#include "absl/status/status.h"
#include "engine/weights/checkpoint.h"

namespace kinora {

// Fails with InvalidArgument, naming the part and the argument of --model that gives it, if a part is missing that
// every run reads. video: whether runs make video. The text encoder is not among them: plans need none.
absl::Status CheckPartsArePresent(const Checkpoint& checkpoint, bool video);

// Fails with InvalidArgument, naming the file, if a part is of another generation than the transformer: the VAEs of
// LTX-2.0 have other latents, and each transformer was trained with one text encoder
// (ltx_core/text_encoders/gemma/encoders/encoder_configurator.py _check_gemma_version).
absl::Status CheckPartsBelongTogether(const Checkpoint& checkpoint);

}  // namespace kinora

#endif  // KINORA_ENGINE_CONFIG_CHECKPOINT_PARTS_H_
