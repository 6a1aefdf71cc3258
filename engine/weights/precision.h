// The precision in which a model is stored and computed. Only this class parses and prints it.
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
    std::string pattern;  // for a weight's canonical name; `*` matches any characters
    DType weights = DType::kBF16;
    friend bool operator==(const Exception&, const Exception&) = default;
  };

  Precision() = default;
  Precision(DType both) : activations(both), weights(both) {}  // NOLINT: kF32 and kBF16 name a precision by themselves

  // Parses "f32" (the parity mode: float32 end to end), "bf16" or "fp8" (activations bf16), then exceptions:
  // "fp8,transformer.transformer_blocks.0.*=bf16,*.to_gate_logits.*=bf16". Fails with InvalidArgument naming the field
  // `precision`.
  static absl::StatusOr<Precision> Parse(std::string_view text);
  // Returns a text that Parse accepts.
  std::string ToString() const;

  // Returns the dtype of the weight of this name: that of the first exception whose pattern matches, else `weights`.
  DType Of(std::string_view name) const;
  // Fails with Unimplemented, naming the field and the value, if the backend does not support such weights.
  absl::Status CheckOn(const BackendTraits& backend) const;

  DType activations = DType::kBF16;  // kF32 or kBF16
  DType weights = DType::kBF16;      // kF32, kBF16 or kF8E4M3
  std::vector<Exception> exceptions{};

  friend bool operator==(const Precision&, const Precision&) = default;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_WEIGHTS_PRECISION_H_
