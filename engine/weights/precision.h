// In which precision a model is held and computed. Parsed and printed here alone.
#ifndef KINORA_ENGINE_WEIGHTS_PRECISION_H_
#define KINORA_ENGINE_WEIGHTS_PRECISION_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/ops/backend.h"

namespace kinora {

struct Precision {
  struct Exception {
    std::string pattern;  // of a weight's canonical name; `*` stands for any characters
    DType weights = DType::kBF16;
    friend bool operator==(const Exception&, const Exception&) = default;
  };

  Precision() = default;
  Precision(DType both) : activations(both), weights(both) {}  // NOLINT: kF32 and kBF16 name a precision by themselves

  // "f32" (the parity mode: float32 end to end), "bf16", "fp8" (activations bf16), then exceptions:
  // "fp8,transformer.transformer_blocks.0.*=bf16,*.to_gate_logits.*=bf16". InvalidArgument naming the field
  // `precision`.
  static absl::StatusOr<Precision> Parse(std::string_view text);
  // The way back.
  std::string ToString() const;

  // Of the weight of this name: the first exception whose pattern matches, or `weights`.
  DType Of(std::string_view name) const;
  // Unimplemented, naming the field and the value, if the backend does not multiply by such weights.
  absl::Status CheckOn(const BackendTraits& backend) const;

  DType activations = DType::kBF16;  // kF32 or kBF16
  DType weights = DType::kBF16;      // kF32, kBF16 or kF8E4M3
  std::vector<Exception> exceptions{};

  friend bool operator==(const Precision&, const Precision&) = default;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_WEIGHTS_PRECISION_H_
