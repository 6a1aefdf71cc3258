#include "engine/base/command_line.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

constexpr FlagSpec kStandardFlags[] = {
    {"help", "", "show this help"},
    {"version", "", "show version, commit, backends and the CPU's instruction set"},
};

constexpr std::pair<char, absl::string_view> kLetters[] = {
    {'h', "help"}, {'o', "output"}, {'q', "quiet"}, {'V', "version"}};

// Names of our flags in diffusers, ltx-pipelines and ffmpeg.
constexpr std::pair<absl::string_view, absl::string_view> kSynonyms[] = {
    {"fps", "frame-rate"}, {"num-frames", "frames"}, {"num-inference-steps", "steps"}, {"guidance-scale", "cfg"},
    {"cfg-scale", "cfg"},  {"stg-scale", "stg"},     {"guidance-rescale", "rescale"},  {"resolution", "size"},
};

absl::Status BadValue(absl::string_view name, absl::string_view value, absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat("--", name, " ", value, ": ", expected));
}

bool IsFlag(absl::string_view argument) { return argument.size() >= 2 && argument[0] == '-'; }

const FlagSpec* Find(absl::Span<const FlagSpec> flags, absl::string_view name) {
  const auto at = std::find_if(flags.begin(), flags.end(), [&](const FlagSpec& f) { return f.name == name; });
  return at == flags.end() ? nullptr : &*at;
}

const FlagSpec* FindByAnyName(absl::Span<const FlagSpec> flags, absl::string_view given) {
  const std::string name = absl::StrReplaceAll(given, {{"_", "-"}});
  if (const FlagSpec* flag = Find(flags, name)) return flag;
  for (const auto& [synonym, ours] : kSynonyms) {
    if (name == synonym) return Find(flags, ours);
  }
  return nullptr;
}

// A flag argument, long or short, resolved to its spec, and the value attached to it ("--name=VALUE", "-oVALUE").
struct Spelled {
  const FlagSpec* spec = nullptr;
  std::optional<absl::string_view> value{};
};

Spelled Spell(absl::Span<const FlagSpec> flags, absl::string_view argument) {
  if (absl::StartsWith(argument, "--")) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(argument.substr(2), absl::MaxSplits('=', 1));
    Spelled spelled{.spec = FindByAnyName(flags, parts.first)};
    if (absl::StrContains(argument, '=')) spelled.value = parts.second;
    return spelled;
  }
  for (const auto& [letter, name] : kLetters) {
    if (argument[1] != letter) continue;
    Spelled spelled{.spec = Find(flags, name)};
    absl::string_view rest = argument.substr(2);
    if (!rest.empty() && spelled.spec != nullptr && spelled.spec->value.empty()) return {};  // "-qo"
    if (!rest.empty() && rest[0] == '=') rest.remove_prefix(1);
    if (argument.size() > 2) spelled.value = rest;
    return spelled;
  }
  return {};
}

absl::Status Unknown(absl::Span<const FlagSpec> flags, absl::string_view argument) {
  const absl::string_view given = argument.substr(0, argument.find('='));
  std::vector<absl::string_view> names;
  for (const FlagSpec& flag : flags) names.push_back(flag.name);
  const absl::string_view nearest = NearestWord(absl::StripPrefix(absl::StripPrefix(given, "-"), "-"), names);
  const bool operand = !absl::StartsWith(argument, "--") && nearest.empty();
  return absl::InvalidArgumentError(
      absl::StrCat(given, ": no such flag; ",
                   !nearest.empty() ? absl::StrCat("did you mean --", nearest, "?")
                   : operand        ? "--help lists them; put an operand that begins with a dash after --"
                                    : "--help lists them"));
}

// Edit distance: letters to replace, insert, delete, or swap with the next.
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> above2, above, row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    above2 = std::exchange(above, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], above2[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

absl::Span<const FlagSpec> StandardFlags() { return kStandardFlags; }

char LetterOf(absl::string_view flag) {
  for (const auto& [letter, name] : kLetters) {
    if (name == flag) return letter;
  }
  return 0;
}

absl::StatusOr<size_t> CommandLine::TakeFlag(absl::Span<const FlagSpec> flags, absl::Span<const std::string> arguments,
                                             size_t i) {
  const Spelled flag = Spell(flags, arguments[i]);
  if (flag.spec == nullptr) return Unknown(flags, arguments[i]);
  const FlagSpec& spec = *flag.spec;
  std::string value(flag.value.value_or(absl::StartsWith(spec.value, "[=true") ? "true" : ""));
  if (spec.value.empty() && flag.value) return BadValue(spec.name, value, "takes no value");
  const bool needs_value = !spec.value.empty() && spec.value[0] != '[';
  if (needs_value && !flag.value) {
    if (++i == arguments.size()) {
      return absl::InvalidArgumentError(absl::StrCat("--", spec.name, ": needs a value, ", spec.value));
    }
    value = arguments[i];
  }
  values_[std::string(spec.name)].push_back(value);
  given_.emplace_back(spec.name, std::move(value));
  return i + 1;
}

absl::StatusOr<CommandLine> CommandLine::Parse(absl::Span<const FlagSpec> flags,
                                               absl::Span<const std::string> arguments) {
  CommandLine line;
  for (size_t i = 0; i < arguments.size();) {
    if (arguments[i] == "--") {
      line.operands_.insert(line.operands_.end(), arguments.begin() + i + 1, arguments.end());
      break;
    }
    if (IsFlag(arguments[i])) {
      KINORA_ASSIGN_OR_RETURN(i, line.TakeFlag(flags, arguments, i));
    } else {
      line.operands_.push_back(arguments[i++]);
    }
  }
  return line;
}

absl::StatusOr<size_t> CommandLine::CountBeforeOperands(absl::Span<const FlagSpec> flags,
                                                        absl::Span<const std::string> arguments) {
  CommandLine line;
  size_t i = 0;
  while (i < arguments.size() && IsFlag(arguments[i]) && arguments[i] != "--") {
    KINORA_ASSIGN_OR_RETURN(i, line.TakeFlag(flags, arguments, i));
  }
  return i;
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
    return BadValue(name, *text, absl::StrCat("must be a whole number from ", minimum, " to ", maximum));
  }
  return std::optional(value);
}

absl::StatusOr<std::optional<int64_t>> CommandLine::GetBytes(absl::string_view name) const {
  const std::optional<std::string> text = Get(name);
  if (!text) return std::optional<int64_t>();
  const std::optional<int64_t> bytes = ParseBytes(*text);
  if (bytes) return bytes;
  return BadValue(name, *text, "must be a size: bytes, or a number with kB, MB, GB, TB, KiB, MiB, GiB or TiB");
}

absl::StatusOr<std::optional<uint64_t>> CommandLine::GetUint64(absl::string_view name) const {
  const std::optional<std::string> text = Get(name);
  if (!text) return std::optional<uint64_t>();
  uint64_t value;
  if (!absl::SimpleAtoi(*text, &value)) {
    return BadValue(name, *text, "must be a whole number from 0 to 18446744073709551615");
  }
  return std::optional(value);
}

absl::StatusOr<std::optional<double>> CommandLine::GetDouble(absl::string_view name) const {
  const std::optional<std::string> text = Get(name);
  if (!text) return std::optional<double>();
  double value;
  if (!absl::SimpleAtod(*text, &value) || !std::isfinite(value)) return BadValue(name, *text, "must be a number");
  return std::optional(value);
}

absl::StatusOr<std::optional<absl::Duration>> CommandLine::GetDuration(absl::string_view name) const {
  const std::optional<std::string> text = Get(name);
  if (!text) return std::optional<absl::Duration>();
  const std::optional<absl::Duration> duration = ParseDurationText(*text);
  if (duration) return duration;
  return BadValue(name, *text, "must be a duration of 0 or more, such as 90s, 1h30m or 1d");
}

std::optional<int64_t> ParseBytes(absl::string_view text) {
  constexpr std::pair<absl::string_view, double> kUnits[] = {
      {"ki", 0x1p10}, {"mi", 0x1p20}, {"gi", 0x1p30}, {"ti", 0x1p40}, {"k", 1e3}, {"m", 1e6}, {"g", 1e9}, {"t", 1e12}};
  const std::string lower = absl::AsciiStrToLower(text);
  absl::string_view number = lower;
  absl::ConsumeSuffix(&number, "b");
  double unit = 1;
  for (const auto& [suffix, bytes] : kUnits) {
    if (!absl::ConsumeSuffix(&number, suffix)) continue;
    unit = bytes;
    break;
  }
  if (number.size() < lower.size()) number = absl::StripTrailingAsciiWhitespace(number);
  double value;
  if (!absl::SimpleAtod(number, &value) || !(value * unit >= 1 && value * unit <= 0x1p62)) return std::nullopt;
  if (unit == 1 && value != std::floor(value)) return std::nullopt;  // a fraction of a byte: the unit is missing
  return static_cast<int64_t>(value * unit);
}

std::optional<absl::Duration> ParseDurationText(absl::string_view text) {
  double number;
  absl::Duration days, rest;
  if (absl::SimpleAtod(text, &number) && std::isfinite(number)) {
    rest = absl::Seconds(number);
  } else {
    const size_t end = text.find('d');  // no other unit contains a "d"
    if (end != absl::string_view::npos) {
      if (!absl::SimpleAtod(text.substr(0, end), &number) || !(number >= 0 && number <= 1e6)) return std::nullopt;
      days = absl::Hours(24) * number;
      text.remove_prefix(end + 1);
    }
    const bool nothing_more = end != absl::string_view::npos && text.empty();
    if (!nothing_more && !absl::ParseDuration(std::string(text), &rest)) return std::nullopt;
  }
  if (rest < absl::ZeroDuration() || rest == absl::InfiniteDuration()) return std::nullopt;
  return days + rest;
}

absl::string_view NearestWord(absl::string_view word, absl::Span<const absl::string_view> words) {
  absl::string_view nearest;
  if (word.empty()) return nearest;
  for (absl::string_view one : words) {
    if (absl::StartsWith(one, word) && (nearest.empty() || one.size() < nearest.size())) nearest = one;
  }
  for (absl::string_view one : words) {
    if (nearest.empty() && absl::StrContains(absl::StrCat(one, "-"), absl::StrCat("-", word, "-"))) nearest = one;
  }
  if (!nearest.empty()) return nearest;
  size_t least = std::min(size_t{2}, (word.size() + 1) / 3) + 1;
  for (absl::string_view one : words) {
    const size_t distance = Distance(word, one);
    if (distance < least) least = distance, nearest = one;
  }
  return nearest;
}

std::string FormatFlags(absl::Span<const FlagSpec> flags) {
  constexpr size_t kColumn = 30;
  constexpr size_t kWidth = 100;
  std::string out;
  for (const FlagSpec& flag : flags) {
    const char letter = LetterOf(flag.name);
    std::string line =
        absl::StrCat("  ", letter == 0 ? "" : absl::StrCat("-", std::string(1, letter), ", "), "--", flag.name,
                     absl::StartsWith(flag.value, "[") ? ""
                     : flag.value.empty()              ? ""
                                                       : " ",
                     flag.value);
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
