// Typed reading of configuration JSON from untrusted files. Problems are collected, so that one run reports all of
// them. A field that is absent or null keeps its default.
#ifndef KINORA_ENGINE_CONFIG_CONFIG_FIELDS_H_
#define KINORA_ENGINE_CONFIG_CONFIG_FIELDS_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/strings.h"
#include "nlohmann/json.hpp"

namespace kinora {

class ConfigProblems {
 public:
  void Add(std::string problem) { problems_.push_back(std::move(problem)); }
  bool ok() const { return problems_.empty(); }
  absl::Status status() const;  // InvalidArgument listing the first 20

 private:
  std::vector<std::string> problems_;
};

// Bounds. Larger values mean a damaged or hostile file, which is rejected before anything is allocated.
inline constexpr int64_t kMaxLayers = 1024;
inline constexpr int64_t kMaxHeads = 1024;
inline constexpr int64_t kMaxHeadDim = 256;    // limit of attention in chunks
inline constexpr int64_t kMaxWidth = 1 << 14;  // widest row that kernels keep in float32 at once
inline constexpr int64_t kMaxSide = 1 << 14;   // pixels or frames
inline constexpr int64_t kMaxSteps = 999;
inline constexpr int64_t kMaxSampleRate = 1 << 20;

struct Range {  // inclusive
  double min, max;
};
// Ranges of numbers used in the maths, wider than any trained model needs. Outside them, float32 overflows or all rows
// become equal.
inline constexpr Range kEpsilon{1e-12, 1.0};       // of a norm; added to a mean of squares of about 1
inline constexpr Range kRopeTheta{1.0, 1e9};       // below 1 the frequencies grow
inline constexpr Range kTimestepScale{1e-3, 1e6};  // multiplied by a noise level of at most 1
inline constexpr Range kMaxPosition{1.0, 1e6};     // s, pixels or rows; Describe turns them into int32 limits
inline constexpr Range kShift{-10.0, 10.0};        // exponents of the schedule
inline constexpr Range kScale{1e-3, 1e6};          // divisors of logits or frequencies
inline constexpr Range kSlope{0.0, 1.0};           // of a leaky ReLU
inline constexpr Range kGuidance{-100.0, 100.0};   // guidance scales
inline constexpr Range kRescale{0.0, 1.0};
inline constexpr Range kFrameRate{1.0, 240.0};
inline constexpr Range kTerminal{1e-6, 0.999999};  // the schedule's last noise level before 0

// Returns a value for messages: JSON, at most 80 bytes.
std::string ShortText(const nlohmann::json& value);

class ConfigFields {
 public:
  // object: null reads as empty; anything but an object is a problem and reads as empty. path: for messages, such as
  // "config.vae".
  ConfigFields(const nlohmann::json* object, std::string path, ConfigProblems* problems);

  bool Has(std::string_view key) const { return Find(key) != nullptr; }
  ConfigFields Object(std::string_view key) const;
  std::string Path(std::string_view key) const { return Cat(path_, ".", key); }
  const nlohmann::json* Find(std::string_view key) const;  // null if absent or null

  // Set *out if the field is present and acceptable.
  void Read(std::string_view key, bool* out) const;
  void Read(std::string_view key, double* out, Range range) const;
  void Read(std::string_view key, std::string* out) const;
  void Read(std::string_view key, int64_t* out, int64_t max) const;               // 1..max
  void Read(std::string_view key, std::vector<int64_t>* out, int64_t max) const;  // 1..64 numbers of 1..max
  void Read(std::string_view key, std::vector<double>* out, Range range) const;   // 1..64 numbers
  void Read(std::string_view key, std::vector<bool>* out, size_t count) const;    // a list of `count`, or one for all
  template <typename T>
  T Get(std::string_view key, T fallback) const {
    Read(key, &fallback);
    return fallback;
  }

  // Accepts only the value `only`, for fields whose other values are not supported. The field may be absent.
  void Require(std::string_view key, const nlohmann::json& only) const;
  // Returns the index of the field's value in `values`, or `fallback` if absent. Any other value is a problem.
  size_t Choose(std::string_view key, std::initializer_list<std::string_view> values, size_t fallback) const;
  // Accepts only `value`, which another field (`as`) has. The field may be absent.
  void RequireSame(std::string_view key, int64_t value, std::string_view as) const;

  void Problem(std::string_view key, std::string_view what) const;
  ConfigProblems& problems() const { return *problems_; }
  // Returns the same object with another list of problems.
  ConfigFields With(ConfigProblems* problems) const { return {object_, path_, problems}; }

 private:
  const nlohmann::json* object_;
  std::string path_;
  ConfigProblems* problems_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_CONFIG_CONFIG_FIELDS_H_
