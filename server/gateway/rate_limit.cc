#include "server/gateway/rate_limit.h"

#include <algorithm>

namespace kinora {
namespace {

constexpr absl::Duration kBetweenForgetting = absl::Seconds(1);  // a search through all buckets takes about 1 ms
constexpr char kOthers[] = "others";

}  // namespace

double RateLimit::TokensAt(const Bucket& bucket, absl::Time now) const {
  return std::min(Most(), bucket.tokens + per_second_ * absl::ToDoubleSeconds(now - bucket.as_of));
}

void RateLimit::ForgetFullBuckets(absl::Time now) {
  if (now < next_forgetting_) return;
  next_forgetting_ = now + kBetweenForgetting;
  for (auto one = buckets_.begin(); one != buckets_.end();) {
    one = TokensAt(one->second, now) >= Most() ? buckets_.erase(one) : std::next(one);
  }
}

absl::Duration RateLimit::Take(const std::string& client) {
  if (per_second_ <= 0) return absl::ZeroDuration();
  const absl::Time now = steady_.Now();
  absl::MutexLock lock(&mu_);
  if (buckets_.size() >= kMostClients) ForgetFullBuckets(now);
  const bool known = buckets_.count(client) > 0;
  const std::string& name = known || buckets_.size() < kMostClients ? client : kOthers;
  Bucket& bucket = buckets_.try_emplace(name, Bucket{.tokens = Most(), .as_of = now}).first->second;
  bucket = {.tokens = TokensAt(bucket, now), .as_of = now};
  if (bucket.tokens < 1) return absl::Seconds((1 - bucket.tokens) / per_second_);
  bucket.tokens -= 1;
  return absl::ZeroDuration();
}

}  // namespace kinora
