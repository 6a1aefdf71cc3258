// Requests per second and client: a token bucket for each client that has been seen lately.
#ifndef KINORA_SERVER_GATEWAY_RATE_LIMIT_H_
#define KINORA_SERVER_GATEWAY_RATE_LIMIT_H_

#include <cstddef>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"

namespace kinora {

class RateLimit {  // thread-safe
 public:
  static constexpr size_t kMostClients = 10'000;  // further ones share one bucket

  // A client may make `per_second` requests on average, and 2 · per_second (at least 1) at once. 0: no limit.
  RateLimit(double per_second, const Clock& steady) : per_second_(per_second), steady_(steady) {}

  // Takes a token of the client. Returns zero, or how long it takes until there is one.
  absl::Duration Take(const std::string& client) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Bucket {
    double tokens = 0;
    absl::Time as_of;
  };

  double Most() const { return per_second_ < 0.5 ? 1 : 2 * per_second_; }
  double TokensAt(const Bucket& bucket, absl::Time now) const;
  void ForgetFullBuckets(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const double per_second_;
  const Clock& steady_;
  absl::Mutex mu_;
  std::map<std::string, Bucket> buckets_ ABSL_GUARDED_BY(mu_);
  absl::Time next_forgetting_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
};

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_RATE_LIMIT_H_
