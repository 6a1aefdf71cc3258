#include "server/common/timestamps.h"

#include <algorithm>

namespace kinora {
namespace {

constexpr int64_t kFirstSecond = -62135596800;      // 0001-01-01T00:00:00Z
constexpr int64_t kLastSecond = 253402300799;       // 9999-12-31T23:59:59Z
constexpr int64_t kDurationSeconds = 315576000000;  // 10,000 years

}  // namespace

google::protobuf::Timestamp ToProto(absl::Time time) {
  const absl::Time clamped = std::clamp(time, absl::FromUnixSeconds(kFirstSecond), absl::FromUnixSeconds(kLastSecond));
  google::protobuf::Timestamp out;
  const int64_t seconds = absl::ToUnixSeconds(clamped);  // rounds toward the past, as nanos ≥ 0 needs
  out.set_seconds(seconds);
  out.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(clamped - absl::FromUnixSeconds(seconds))));
  return out;
}

google::protobuf::Duration ToProto(absl::Duration duration) {
  const absl::Duration limit = absl::Seconds(kDurationSeconds);
  absl::Duration rest;
  google::protobuf::Duration out;
  out.set_seconds(absl::IDivDuration(std::clamp(duration, -limit, limit), absl::Seconds(1), &rest));
  out.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  return out;
}

absl::Time FromProto(const google::protobuf::Timestamp& timestamp) {
  return absl::FromUnixSeconds(timestamp.seconds()) + absl::Nanoseconds(timestamp.nanos());
}

absl::Duration FromProto(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

}  // namespace kinora
