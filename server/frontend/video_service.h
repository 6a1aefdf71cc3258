// The public API: each method validates, converts, delegates; none blocks a gRPC thread.
#ifndef KINORA_SERVER_FRONTEND_VIDEO_SERVICE_H_
#define KINORA_SERVER_FRONTEND_VIDEO_SERVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/common/artifact_store.h"
#include "server/frontend/event_hub.h"
#include "server/frontend/event_loop.h"
#include "server/frontend/housekeeper.h"
#include "server/frontend/job_metrics.h"
#include "server/frontend/job_queue.h"
#include "server/frontend/job_store.h"
#include "server/frontend/request_validation.h"
#include "server/frontend/token_file.h"

namespace grpc {
class Service;
}

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
  RequestLimits limits;
  TokenSet tokens;
  // ResourceExhausted (DISK_FULL) if a new job's artifact might find no room.
  std::function<absl::Status()> check_disk;
  // Of the dispatcher: a job whose cancel is stored; what a request would cost.
  std::function<void(const JobId&)> cancel_run;
  std::function<void(const std::string& model, const v1::Generation& effective, Done<v1::Estimate>)> estimate;
};

struct GroupControl {  // of the dispatcher
  std::function<void(Done<std::vector<v1::WorkerGroup>>)> list;
  std::function<void(const std::string&id, Done<v1::WorkerGroup>)> drain, restart;
};

// Stores the cancel of a job and tells the queue and the dispatcher; what CancelVideo and a broken GenerateVideo do.
void CancelJob(JobStore& store, JobQueue& queue, const std::function<void(const JobId&)>& cancel_run, const JobId& id,
               Done<v1::Video> done);

std::unique_ptr<grpc::Service> MakeVideoService(ServiceContext& context);
std::unique_ptr<grpc::Service> MakeModelsService(ServiceContext& context);
std::unique_ptr<grpc::Service> MakeAdminService(GroupControl control, TokenSet tokens);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_VIDEO_SERVICE_H_
