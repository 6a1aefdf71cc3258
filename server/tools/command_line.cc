#include "server/tools/command_line.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace kinora {
namespace {

absl::Status BadValue(absl::string_view name, absl::string_view value, absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat("--", name, " ", value, ": ", expected));
}

}  // namespace

absl::StatusOr<CommandLine> CommandLine::Parse(absl::Span<const FlagSpec> flags,
                                               absl::Span<const std::string> arguments) {
  CommandLine line;
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view argument = arguments[i];
    if (argument == "--") {
      line.operands_.insert(line.operands_.end(), arguments.begin() + i + 1, arguments.end());
      break;
    }
    if (argument == "-o") argument = "--output";
    if (argument.size() < 2 || argument.substr(0, 2) != "--") {
      line.operands_.emplace_back(argument);
      continue;
    }
    const size_t equals = argument.find('=');
    const absl::string_view name = argument.substr(2, equals == absl::string_view::npos ? equals : equals - 2);
    const auto spec = std::find_if(flags.begin(), flags.end(), [&](const FlagSpec& f) { return f.name == name; });
    if (spec == flags.end()) return absl::InvalidArgumentError(absl::StrCat("--", name, ": no such flag"));
    if (spec->value.empty()) {
      if (equals != absl::string_view::npos) return BadValue(name, argument.substr(equals + 1), "takes no value");
      line.values_[std::string(name)].emplace_back();
    } else if (equals != absl::string_view::npos) {
      line.values_[std::string(name)].emplace_back(argument.substr(equals + 1));
    } else if (i + 1 < arguments.size()) {
      line.values_[std::string(name)].push_back(arguments[++i]);
    } else {
      return absl::InvalidArgumentError(absl::StrCat("--", name, ": needs a value, ", spec->value));
    }
  }
  return line;
}

std::optional<std::string> CommandLine::Get(absl::string_view name) const {
  const auto it = values_.find(name);
  return it == values_.end() ? std::nullopt : std::optional(it->second.back());
}

std::vector<std::string> CommandLine::GetAll(absl::string_view name) const {
  const auto it = values_.find(name);
  return it == values_.end() ? std::vector<std::string>() : it->second;
}

absl::StatusOr<std::optional<int64_t>> CommandLine::GetInt(absl::string_view name, int64_t minimum,
                                                           int64_t maximum) const {
  const std::optional<std::string> text = Get(name);
  if (!text) return std::optional<int64_t>();
  int64_t value;
  if (!absl::SimpleAtoi(*text, &value) || value < minimum || value > maximum) {
    return BadValue(name, *text, absl::StrCat("a whole number from ", minimum, " to ", maximum, " is needed"));
  }
  return std::optional(value);
}

absl::StatusOr<std::optional<int64_t>> CommandLine::GetBytes(absl::string_view name) const {
  constexpr std::pair<absl::string_view, double> kUnits[] = {{"kB", 1e3},     {"MB", 1e6},     {"GB", 1e9},
                                                             {"TB", 1e12},    {"KiB", 0x1p10}, {"MiB", 0x1p20},
                                                             {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  const std::optional<std::string> text = Get(name);
  if (!text) return std::optional<int64_t>();
  absl::string_view number = *text;
  double unit = 1;
  for (const auto& [suffix, bytes] : kUnits) {
    if (!absl::ConsumeSuffix(&number, suffix)) continue;
    unit = bytes;
    break;
  }
  double value;
  constexpr double kMost = 0x1p62;
  if (!absl::SimpleAtod(number, &value) || !(value * unit >= 1 && value * unit <= kMost)) {
    return BadValue(name, *text, "a size is needed: bytes, or a number with kB, MB, GB, TB, KiB, MiB, GiB or TiB");
  }
  return std::optional(static_cast<int64_t>(value * unit));
}

absl::StatusOr<std::optional<uint64_t>> CommandLine::GetUint64(absl::string_view name) const {
  const std::optional<std::string> text = Get(name);
  if (!text) return std::optional<uint64_t>();
  uint64_t value;
  if (!absl::SimpleAtoi(*text, &value)) {
    return BadValue(name, *text, "a whole number from 0 to 18446744073709551615 is needed");
  }
  return std::optional(value);
}

absl::StatusOr<std::optional<double>> CommandLine::GetDouble(absl::string_view name) const {
  const std::optional<std::string> text = Get(name);
  if (!text) return std::optional<double>();
  double value;
  if (!absl::SimpleAtod(*text, &value) || !std::isfinite(value)) return BadValue(name, *text, "a number is needed");
  return std::optional(value);
}

absl::StatusOr<std::optional<absl::Duration>> CommandLine::GetDuration(absl::string_view name) const {
  const std::optional<std::string> text = Get(name);
  if (!text) return std::optional<absl::Duration>();
  absl::Duration duration;
  double seconds;
  if (absl::SimpleAtod(*text, &seconds) && std::isfinite(seconds)) {
    duration = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(*text, &duration)) {
    return BadValue(name, *text, "a duration such as 90s or 1h30m is needed");
  }
  if (duration < absl::ZeroDuration()) return BadValue(name, *text, "a duration cannot be negative");
  return std::optional(duration);
}

std::string FormatFlags(absl::Span<const FlagSpec> flags) {
  constexpr size_t kColumn = 30;
  constexpr size_t kWidth = 100;
  std::string out;
  for (const FlagSpec& flag : flags) {
    std::string line = absl::StrCat("  --", flag.name, flag.value.empty() ? "" : " ", flag.value);
    if (line.size() + 1 > kColumn) {
      absl::StrAppend(&out, line, "\n");
      line.clear();
    }
    line.resize(kColumn - 1, ' ');
    for (absl::string_view word : absl::StrSplit(flag.help, ' ')) {
      if (line.size() + 1 + word.size() > kWidth) {
        absl::StrAppend(&out, line, "\n");
        line.assign(kColumn - 1, ' ');
      }
      absl::StrAppend(&line, " ", word);
    }
    absl::StrAppend(&out, line, "\n");
  }
  return out;
}

}  // namespace kinora
