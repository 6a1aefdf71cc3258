// The dependencies of the services, the reactors and admission.
#ifndef KINORA_SERVER_FRONTEND_API_SERVICE_CONTEXT_H_
#define KINORA_SERVER_FRONTEND_API_SERVICE_CONTEXT_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/common/artifact_store.h"
#include "server/frontend/api/call_slots.h"
#include "server/frontend/api/message_reads.h"
#include "server/frontend/api/request_validation.h"
#include "server/frontend/api/token_file.h"
#include "server/frontend/inputs/input_store.h"
#include "server/frontend/jobs/catalogue_store.h"
#include "server/frontend/jobs/event_hub.h"
#include "server/frontend/jobs/event_source.h"
#include "server/frontend/jobs/housekeeper.h"
#include "server/frontend/jobs/job_metrics.h"
#include "server/frontend/jobs/job_store.h"
#include "server/frontend/jobs/work_queue.h"
#include "server/net/event_lanes.h"

namespace kinora {

// None is owned. All must outlive the server that the services are registered with; the store is flushed before they
// are destroyed.
struct ServiceContext {
  JobStore& store;
  CatalogueStore& catalogue;
  WorkQueue& queue;
  EventHub& hub;
  EventSource& events;
  ArtifactStore& artifacts;
  Housekeeper& housekeeper;
  std::function<void(const JobId&)> client_left;  // of a job that ends without one
  JobMetrics& metrics;
  FrontendMetrics& gauges;
  EventLanes& disk;  // reads artifacts
  CallSlots& downloads;
  absl::Duration download_idle;  // limit for a client to accept a chunk
  InputStore& inputs;
  CallSlots& uploads;
  MessageReads& upload_reads;  // for all messages of an upload but the first
  RequestLimits limits;
  TokenSet tokens;
  // Fails with ResourceExhausted (DISK_FULL) if a new job's artifact might not fit on the disk.
  std::function<absl::Status()> check_disk;
  // Calls of the dispatcher: stop a job whose cancellation is stored; estimate a request; estimate a request that is to
  // become a job, from estimates of the same shape.
  std::function<void(const JobId&)> cancel_run;
  std::function<void(const std::string& model, const v1::Generation& effective, Done<v1::Estimate>)> estimate;
  std::function<void(const std::string& model, const v1::Generation& effective, Done<v1::Estimate>)> estimate_shape;
  std::function<Absence()> absence;  // why no group is ready
  // Why no group serves the model now; empty if one does.
  std::function<std::string(const std::string& model)> waits_for;
  // True if a group listed this LoRA of the model a moment ago: its file may be in the middle of a replacement.
  std::function<bool(const std::string& model, const std::string& lora)> comes_back;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_SERVICE_CONTEXT_H_
