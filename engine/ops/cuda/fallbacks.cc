#include "engine/ops/cuda/fallbacks.h"

#include "absl/strings/str_cat.h"
#include "engine/base/fallbacks.h"
#include "engine/base/logging.h"

namespace kinora {
namespace {

std::string_view NameOf(Fallback::Op op) { return op == Fallback::Op::kAttention ? "attention" : "convolution"; }

std::string_view NameOf(Fallback::Reason reason) {
  switch (reason) {
    case Fallback::Reason::kRefused:
      return "refused";
    case Fallback::Reason::kAlignment:
      return "alignment";
    case Fallback::Reason::kSize:
      break;
  }
  return "size";
}

// cuDNN's message without the lines in which it lists its engines.
std::string_view FirstLine(std::string_view text) { return text.substr(0, text.find('\n')); }

}  // namespace

Fallbacks::Fallbacks(int64_t most_values) : most_values_(most_values) {
  for (const auto op : {Fallback::Op::kAttention, Fallback::Op::kConvolution}) {
    for (const auto reason : {Fallback::Reason::kRefused, Fallback::Reason::kAlignment, Fallback::Reason::kSize}) {
      CountFallback(NameOf(op), NameOf(reason), 0);
    }
  }
}

absl::Status Fallbacks::Take(const Fallback& fallback) {
  const std::string op(NameOf(fallback.op)), reason(NameOf(fallback.reason)), why(FirstLine(fallback.why));
  CountFallback(op, reason, 1);
  if (logged_.insert(absl::StrCat(op, reason, fallback.shape)).second) {
    Log(Severity::kWarning, "cuda_fallback",
        {{"op", op}, {"reason", reason}, {"shape", fallback.shape}, {"values", fallback.values}, {"error", why}});
  }
  if (fallback.values <= most_values_) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(op, " of ", fallback.shape, ": cuDNN cannot compute it (", reason,
                                                    why.empty() ? "" : ": ", why, "), and products would write ",
                                                    fallback.values, " values, more than ", most_values_,
                                                    ": check the libraries with `kinora doctor`, in particular NVRTC"));
}

}  // namespace kinora
