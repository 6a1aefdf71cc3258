// The rules and defaults of requests, in one place for frontend, worker and kinora-render.
//
// A request gets one of three answers, in this order:
//   1. Invalid fields, all at once, each with the nearest valid value.
//   2. A valid part that this build cannot compute yet (not_available.h).
//   3. The effective request, with every default filled in. Resolving it again does not change it.
#ifndef KINORA_ENGINE_REQUEST_REQUEST_RULES_H_
#define KINORA_ENGINE_REQUEST_REQUEST_RULES_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/request/field_violation.h"
#include "engine/request/model_description.h"

namespace kinora {

inline constexpr size_t kMaxPromptBytes = 16 << 10;
inline constexpr int64_t kMaxSigmas = 1000;
// Minimum of noise levels before the last. In float32, x0 = z − sigma·v loses the velocity at sigmas below 2^-20
// with latents up to 16, and (z − x0)/sigma overflows at the smallest sigmas: 1e-40 with a guidance of 1000 gave no
// picture.
inline constexpr double kMinSigma = 1e-6;
// The minimum in HQ, whose last step goes to 0.0011 instead of 0 and divides by the logarithm of their ratio.
inline constexpr double kMinHqSigma = 0.0012;
inline constexpr int32_t kMaxSteps = kMaxSigmas - 1;  // the last sigma is 0
inline constexpr int32_t kMaxSkipStep = kMaxSteps;
inline constexpr int64_t kMaxStgBlocks = 1000;     // in a list
inline constexpr double kMaxGuidanceScale = 1000;  // absolute value; float32 latents overflow far beyond it
inline constexpr double kMinFrameRate = 1, kMaxFrameRate = 240;
inline constexpr int64_t kMaxConditions = 64, kMaxLoras = 64;
inline constexpr double kMaxLoraStrength = 100;  // absolute value
inline constexpr int32_t kMaxCrf = 51;           // H.264
inline constexpr size_t kMaxViolations = 20;     // per answer, which must fit in a status

struct Verdict {
  GenerationRequest effective;  // valid if nothing below is set
  FieldViolations violations;   // every invalid field; at most kMaxViolations
  bool too_large = false;       // a violation exceeds the model's limits on width, height, frames or tokens
  std::string unavailable;      // the first requested part that is not built yet; meaningful only without violations
};

// Fills in the defaults, then applies the rules. Never fails, whatever `model` and `asked` contain.
Verdict ValidateRequest(const ModelDescription& model, const GenerationRequest& asked);

// ValidateRequest's answer as a Status: fails with InvalidArgument "FIELD: …" for all violations, with Unimplemented
// "FIELD: not available yet", or returns the effective request.
absl::StatusOr<GenerationRequest> ResolveRequest(const ModelDescription& model, const GenerationRequest& asked);

// Returns the violations of rules that hold for every model, for callers without a model description.
FieldViolations ViolationsForAnyModel(const GenerationRequest& asked);

// Checks crf, 0..51, and preview_every_steps, 0 or more.
FieldViolations OutputViolations(const OutputRequest& output);

}  // namespace kinora

#endif  // KINORA_ENGINE_REQUEST_REQUEST_RULES_H_
