// What the services, the reactors and admission work with.
#ifndef KINORA_SERVER_FRONTEND_API_SERVICE_CONTEXT_H_
#define KINORA_SERVER_FRONTEND_API_SERVICE_CONTEXT_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/common/artifact_store.h"
#include "server/common/event_loop.h"
#include "server/frontend/api/call_slots.h"
#include "server/frontend/api/message_reads.h"
#include "server/frontend/api/request_validation.h"
#include "server/frontend/api/token_file.h"
#include "server/frontend/inputs/input_store.h"
#include "server/frontend/jobs/event_hub.h"
#include "server/frontend/jobs/housekeeper.h"
#include "server/frontend/jobs/job_metrics.h"
#include "server/frontend/jobs/job_queue.h"
#include "server/frontend/jobs/job_store.h"

namespace kinora {

// What the services need. None is owned; all outlive the server that the services are registered with, and the store is
// flushed in between.
struct ServiceContext {
  JobStore& store;
  JobQueue& queue;
  EventHub& hub;
  ArtifactStore& artifacts;
  Housekeeper& housekeeper;
  JobMetrics& metrics;
  FrontendMetrics& gauges;
  EventLoop& disk;  // where artifacts are read
  CallSlots& downloads;
  absl::Duration download_idle;  // for a client to take a chunk
  InputStore& inputs;
  CallSlots& uploads;
  MessageReads& upload_reads;  // of all messages of an upload but its first
  RequestLimits limits;
  TokenSet tokens;
  // ResourceExhausted (DISK_FULL) if a new job's artifact might find no room.
  std::function<absl::Status()> check_disk;
  // Of the dispatcher: a job whose cancel is stored; what a request would cost; the same of a request that is to become
  // a job, from what is known of its shape.
  std::function<void(const JobId&)> cancel_run;
  std::function<void(const std::string& model, const v1::Generation& effective, Done<v1::Estimate>)> estimate;
  std::function<void(const std::string& model, const v1::Generation& effective, Done<v1::Estimate>)> estimate_shape;
  std::function<Absence()> absence;  // of the worker groups that are not ready
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_SERVICE_CONTEXT_H_
