#ifndef KINORA_SERVER_COMMON_GRPC_DEADLINE_H_
#define KINORA_SERVER_COMMON_GRPC_DEADLINE_H_

#include <chrono>

#include "absl/time/time.h"
#include "engine/base/clock.h"

namespace kinora {

// Returns the deadline `patience` from now, in the system clock that gRPC uses.
inline std::chrono::system_clock::time_point GrpcDeadline(absl::Duration patience) {
  return absl::ToChronoTime(Clock::Real().Now() + patience);
}

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_GRPC_DEADLINE_H_
