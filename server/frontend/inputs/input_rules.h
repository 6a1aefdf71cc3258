// The limits of stored inputs.
#ifndef KINORA_SERVER_FRONTEND_INPUTS_INPUT_RULES_H_
#define KINORA_SERVER_FRONTEND_INPUTS_INPUT_RULES_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace kinora {

inline constexpr size_t kMostInputs = 65536;  // each takes about 300 bytes of memory, and a file
// Lifetime of a part after its last data. Short, because a part counts with its full size against the quota.
inline constexpr absl::Duration kPartTtl = absl::Hours(1);
// Minimum lifetime of an input after Require, during which the request becomes a job.
inline constexpr absl::Duration kNamedFor = absl::Minutes(10);

struct InputRules {
  int64_t max_bytes = 0;  // of one input
  int64_t quota = 0;      // of all inputs; parts count with their full size
  absl::Duration ttl;     // of an input, from its last upload
  absl::Duration sweep_interval = absl::Minutes(1);
  std::function<absl::Status(int64_t bytes)> check_disk;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_INPUTS_INPUT_RULES_H_
