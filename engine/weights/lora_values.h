// Checks the values in a LoRA's file once, before requests can use it.
#ifndef KINORA_ENGINE_WEIGHTS_LORA_VALUES_H_
#define KINORA_ENGINE_WEIGHTS_LORA_VALUES_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "engine/weights/lora.h"

namespace kinora {

// Reads every factor. Fails with InvalidArgument, naming file and tensor, if it holds NaN or infinity; with I/O errors;
// with the failure of on_piece, called every few MiB.
absl::Status CheckLoraValues(const Lora& lora, absl::FunctionRef<absl::Status()> on_piece);

}  // namespace kinora

#endif  // KINORA_ENGINE_WEIGHTS_LORA_VALUES_H_
