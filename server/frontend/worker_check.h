// Checks whether the workers that a frontend is to start could load their models, by running each worker program.
#ifndef KINORA_SERVER_FRONTEND_WORKER_CHECK_H_
#define KINORA_SERVER_FRONTEND_WORKER_CHECK_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kinora/v1/config.pb.h"

namespace kinora {

// Runs worker_binary --check-config once per group of GroupsOf(config), one after the other, and waits for each. The
// workers read headers and configuration, which takes a moment per model; one that takes longer than `patience` is
// killed. InvalidArgument: their messages, or that a worker was too slow, each with the field that describes the group,
// "worker" or "groups[1].worker". Call it before the process has other threads.
absl::Status CheckWorkers(const v1::FrontendConfig& config, absl::Duration patience = absl::Minutes(1));

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_WORKER_CHECK_H_
