// What a request may be: every rule and every default, once, for frontend, worker and kinora-render.
//
// Three answers, in this order: a value that is wrong, by field, with the nearest valid one, and all of them at once; a
// part that is valid and that this build cannot compute yet (the table in not_available.h); or the effective request,
// with every default filled in. An effective request, asked again, is the same.
#ifndef KINORA_ENGINE_REQUEST_REQUEST_RULES_H_
#define KINORA_ENGINE_REQUEST_REQUEST_RULES_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/request/field_violation.h"
#include "engine/request/model_description.h"

namespace kinora {

inline constexpr size_t kMaxPromptBytes = 16 << 10;
inline constexpr int64_t kMaxSigmas = 1000;
// Noise levels but the last. x0 = z − sigma·v in float32: below 2^-20 of latents up to 16 the velocity is rounded away,
// and among the smallest numbers of float32 (z − x0)/sigma overflows: 1e-40 with a guidance of 1000 gave no picture.
inline constexpr double kMinSigma = 1e-6;
// The same of HQ, whose last step goes to 0.0011 in the place of 0 and divides by the logarithm of their ratio.
inline constexpr double kMinHqSigma = 0.0012;
inline constexpr int32_t kMaxSteps = kMaxSigmas - 1;  // the last sigma is 0
inline constexpr int32_t kMaxSkipStep = kMaxSteps;
inline constexpr int64_t kMaxStgBlocks = 1000;     // in a list
inline constexpr double kMaxGuidanceScale = 1000;  // of either sign; float32 latents overflow far beyond it
inline constexpr double kMinFrameRate = 1, kMaxFrameRate = 240;
inline constexpr int64_t kMaxConditions = 64, kMaxLoras = 64;
inline constexpr double kMaxLoraStrength = 100;  // of either sign
inline constexpr int32_t kMaxCrf = 51;           // of H.264
inline constexpr size_t kMaxViolations = 20;     // that one answer lists: it travels in a status

struct Verdict {
  GenerationRequest effective;  // valid if nothing below is set
  FieldViolations violations;   // every field that is wrong; at most kMaxViolations
  bool too_large = false;       // one of them exceeds the model's limits on width, height, frames or tokens
  std::string unavailable;      // the first part asked for that is not built yet; read it if nothing is wrong
};

// Defaults, then rules. Any request and any description: nothing that they hold makes this fail.
Verdict Judge(const ModelDescription& model, const GenerationRequest& asked);

// Judge's answer as a Status: InvalidArgument "FIELD: …" for all that is wrong, Unimplemented "FIELD: not available
// yet", or the effective request.
absl::StatusOr<GenerationRequest> ResolveRequest(const ModelDescription& model, const GenerationRequest& asked);

// What no model could accept; for those who know none yet.
FieldViolations ViolationsForAnyModel(const GenerationRequest& asked);

// crf 0..51, preview_every_steps 0 or more.
FieldViolations OutputViolations(const OutputRequest& output);

}  // namespace kinora

#endif  // KINORA_ENGINE_REQUEST_REQUEST_RULES_H_
