#include "server/common/human_text.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace kinora {
namespace {

constexpr int64_t kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;
constexpr double kLongest = 1e15;  // seconds; within the range of llround, beyond any real wait

}  // namespace

std::string HumanSeconds(double seconds) {
  if (!(seconds >= 0)) return "unknown";
  if (seconds < 0.095) return absl::StrFormat("%.2f s", seconds);
  if (seconds < 9.95) return absl::StrFormat("%.1f s", seconds);
  const int64_t whole = std::llround(std::min(seconds, kLongest));
  if (whole < kMinute) return absl::StrFormat("%d s", whole);
  if (whole < kHour) return absl::StrFormat("%d min %02d s", whole / kMinute, whole % kMinute);
  const int64_t minutes = (whole + kMinute / 2) / kMinute;
  if (minutes < kDay / kMinute) return absl::StrFormat("%d h %02d min", minutes / 60, minutes % 60);
  const int64_t hours = (whole + kHour / 2) / kHour;
  if (hours < 10 * 24) return absl::StrFormat("%d d %02d h", hours / 24, hours % 24);
  return absl::StrFormat("%d d", (whole + kDay / 2) / kDay);
}

std::string HumanAge(double seconds) {
  const auto whole = static_cast<int64_t>(std::clamp(seconds, 0.0, kLongest));
  if (whole < kMinute) return absl::StrFormat("%d s", whole);
  if (whole < kHour) return absl::StrFormat("%d min", whole / kMinute);
  if (whole < kDay) return absl::StrFormat("%d h", whole / kHour);
  return absl::StrFormat("%d d", whole / kDay);
}

std::string HumanTimeLeft(double seconds) {
  const int64_t whole = std::llround(std::clamp(seconds, 0.0, kLongest));
  if (whole < kMinute) return absl::StrFormat("%d s", whole);
  if (const int64_t minutes = (whole + kMinute / 2) / kMinute; minutes < 60) return absl::StrFormat("%d min", minutes);
  if (const int64_t hours = (whole + kHour / 2) / kHour; hours < 24) return absl::StrFormat("%d h", hours);
  return absl::StrFormat("%d d", (whole + kDay / 2) / kDay);
}

std::string HumanBytes(int64_t bytes) { return HumanBytesLike(bytes, bytes); }

std::string HumanBytesLike(int64_t bytes, int64_t like) {
  const auto value = static_cast<double>(bytes);
  if (like >= int64_t{1} << 30) return absl::StrFormat("%.2f GiB", value / 0x1p30);
  if (like >= int64_t{1} << 20) return absl::StrFormat("%.1f MiB", value / 0x1p20);
  if (like >= int64_t{1} << 10) return absl::StrFormat("%.1f KiB", value / 0x1p10);
  return absl::StrFormat("%d bytes", bytes);
}

}  // namespace kinora
