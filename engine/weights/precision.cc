#include "engine/weights/precision.h"

#include <optional>

#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"
#include "engine/base/strings.h"

namespace kinora {
namespace {

constexpr struct {
  std::string_view name;
  DType dtype;
} kNames[] = {{"f32", DType::kF32}, {"bf16", DType::kBF16}, {"fp8", DType::kF8E4M3}};

std::optional<DType> ByName(std::string_view name) {
  for (const auto& known : kNames) {
    if (known.name == name) return known.dtype;
  }
  return std::nullopt;
}

std::string NameOf(DType dtype) {
  for (const auto& known : kNames) {
    if (known.dtype == dtype) return std::string(known.name);
  }
  return std::string(DTypeName(dtype));
}

// On a mismatch, lets the last star match one more character.
bool Matches(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, after_star = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      after_star = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++after_star;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

}  // namespace

absl::StatusOr<Precision> Precision::Parse(std::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(std::string(text), ',');
  const std::optional<DType> base = ByName(parts[0]);
  if (!base.has_value()) {
    return absl::InvalidArgumentError(Cat("precision: ", parts[0], ": f32 or bf16 is needed"));
  }
  Precision precision(*base == DType::kF8E4M3 ? DType::kBF16 : *base);
  precision.weights = *base;
  for (size_t i = 1; i < parts.size(); ++i) {
    const size_t equals = parts[i].rfind('=');
    const std::optional<DType> dtype = equals == std::string::npos ? std::nullopt : ByName(parts[i].substr(equals + 1));
    if (!dtype.has_value() || equals == 0) {
      return absl::InvalidArgumentError(
          Cat("precision: ", parts[i], ": an exception is needed, PATTERN=f32 or PATTERN=bf16"));
    }
    precision.exceptions.push_back({parts[i].substr(0, equals), *dtype});
  }
  return precision;
}

std::string Precision::ToString() const {
  std::string text = NameOf(weights);
  for (const Exception& exception : exceptions) text += Cat(",", exception.pattern, "=", NameOf(exception.weights));
  return text;
}

DType Precision::Of(std::string_view name) const {
  for (const Exception& exception : exceptions) {
    if (Matches(exception.pattern, name)) return exception.weights;
  }
  return weights;
}

absl::Status Precision::CheckOn(const BackendTraits& backend) const {
  const auto check = [&](DType dtype) {
    if (backend.weights->Stores(dtype)) return absl::OkStatus();
    return absl::UnimplementedError(
        Cat("precision: ", NameOf(dtype), ": not available on the device ", backend.device));
  };
  KINORA_RETURN_IF_ERROR(check(weights));
  for (const Exception& exception : exceptions) KINORA_RETURN_IF_ERROR(check(exception.weights));
  return absl::OkStatus();
}

}  // namespace kinora
