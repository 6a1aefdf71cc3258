// Applies the rules of request_rules.h to one request. request_rules.cc checks what all requests share; length_rules.cc
// checks lengths that the model chooses; input_rules.cc checks inputs and the parts that a retake keeps: pictures,
// clips, sounds, LoRAs.
#ifndef KINORA_ENGINE_REQUEST_RULES_H_
#define KINORA_ENGINE_REQUEST_RULES_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/request/field_violation.h"
#include "engine/request/model_description.h"
#include "engine/request/request.h"
#include "engine/request/request_rules.h"

namespace kinora {

constexpr double kAnyNumber = std::numeric_limits<double>::max();

inline bool Guides(const GuidanceParams& g) { return g.NeedsUncond() || g.NeedsPerturbed() || g.NeedsModality(); }

// A value that must be k·multiple + offset, from `smallest` to `largest`.
struct Grid {
  const char* field;
  int64_t value, multiple, offset, smallest, largest;
};

class Rules {
 public:
  // model: null checks only what holds for every model. request: with the model's defaults; must outlive this object.
  Rules(const ModelDescription* model, const GenerationRequest& request)
      : model_(model),
        recipe_(model != nullptr ? model->Find(request.recipe, request.upsampler) : nullptr),
        request_(request) {}

  void CheckAll() {
    CheckPrompt("prompt", request_.prompt);
    CheckPrompt("negative_prompt", request_.negative_prompt.value_or(""));
    if (model_ != nullptr) CheckRecipe();
    CheckShape();
    if (recipe_ != nullptr || request_.frame_rate != 0) {
      CheckNumber("frame_rate", request_.frame_rate, kMinFrameRate, kMaxFrameRate);
    }
    CheckSigmas();
    CheckSteps();
    CheckScheduleTokens();
    CheckGuidance("video_guidance", request_.video_guidance);
    CheckGuidance("audio_guidance", request_.audio_guidance);
    CheckInputs();
    if (request_.audio.has_value()) CheckSound();
    if (request_.audio_only) CheckSoundAlone();
    if (request_.auto_length.has_value()) CheckAutoLength(*request_.auto_length);
  }

  void CheckNumber(const std::string& field, double value, double minimum, double maximum) {
    if (!std::isfinite(value)) return Add(field, "must be a finite number");
    if (value >= minimum && value <= maximum) return;
    const std::string limit = maximum == kAnyNumber ? absl::StrCat("must be ", minimum, " or more")
                                                    : absl::StrCat(value, " is not within ", minimum, "..", maximum);
    Add(field, absl::StrCat(limit, "; nearest: ", std::clamp(value, minimum, maximum)));
  }

  FieldViolations& violations() { return violations_; }
  bool too_large() const { return too_large_; }

 private:
  void Add(const std::string& field, std::string description) {
    ++wrong_;
    if (violations_.size() < kMaxViolations) violations_.push_back({field, std::move(description)});
  }

  bool CheckText(const std::string& field, const std::string& text) {
    std::string problem = TextProblem(text);
    if (problem.empty()) return true;
    Add(field, std::move(problem));
    return false;
  }

  void CheckPrompt(const char* field, const std::string& prompt) {
    if (prompt.size() > kMaxPromptBytes) {
      return Add(field, absl::StrCat(prompt.size(), " bytes; at most ", kMaxPromptBytes));
    }
    CheckText(field, prompt);
  }

  void CheckRecipe();
  void CheckUpsampler();
  void CheckNeeds();
  void CheckGrid(const Grid& grid);
  void CheckShape();
  void CheckTokens(int64_t num_frames);
  int64_t AppendedTokens(int64_t num_frames) const;
  void CheckAutoLength(const AutoLength& length);
  bool CheckSeconds(const std::string& field, double seconds, double minimum);
  void CheckLengths();
  void CheckSigmas();
  void CheckSteps();
  void CheckScheduleTokens();
  void CheckGuidance(const std::string& field, const std::optional<GuidanceParams>& guidance);
  void CheckSound();
  void CheckSoundLength();
  void CheckSoundAlone();
  void CheckStgBlocks(const std::string& field, const std::vector<int32_t>& blocks);
  void CheckInputs();
  void CheckRetake(const RetakeInput& retake);
  void CheckKeptGuidance(const std::string& field, const std::optional<GuidanceParams>& guidance);
  void CheckClipRate(double rate);
  void CheckExtension(const RetakeInput& retake);
  void CheckCondition(const std::string& field, const ConditionInput& condition);
  void CheckLoraId(const std::string& field, const std::string& id);
  void CheckLora(const std::string& field, const LoraInput& lora);

  const ModelDescription* const model_;
  const RecipeDescription* const recipe_;  // null: not described; rules that depend on it are skipped
  const GenerationRequest& request_;
  FieldViolations violations_;
  int64_t wrong_ = 0;    // violations, also those beyond kMaxViolations
  bool shaped_ = false;  // width, height and, where it is known, num_frames are on the grid
  bool sized_ = false;   // the same, and num_frames is known
  bool too_large_ = false;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_REQUEST_RULES_H_
