// Turns a CreateVideoRequest into a waiting job: chooses the model, validates, checks disk, queue capacity, inputs and
// memory, and stores the job. CreateVideo and GenerateVideo share it.
#ifndef KINORA_SERVER_FRONTEND_API_JOB_ADMISSION_H_
#define KINORA_SERVER_FRONTEND_API_JOB_ADMISSION_H_

#include <functional>

#include "server/frontend/api/service_context.h"

namespace kinora {

struct Validated {
  v1::CreateVideoRequest request;  // with the model's id filled in
  v1::Generation effective;
};

// Chooses the model and validates, storing nothing. `done` runs on a thread of the store.
void Validate(ServiceContext& context, const v1::CreateVideoRequest& request, Done<Validated> done);
// Creates the job. `tied`: it ends with the stream that created it, unless the request sets detach.
void Admit(ServiceContext& context, const v1::CreateVideoRequest& request, bool tied, Done<Created> done);

// Adds the fields that are not stored: queue position, waits_for and the latest step.
void AddLiveFields(const ServiceContext& context, v1::Video& video);

// Stores the cancellation of a job and notifies the queue and the dispatcher. Used by CancelVideo and for a broken
// GenerateVideo.
void CancelJob(JobStore& store, WorkQueue& queue, const std::function<void(const JobId&)>& cancel_run, const JobId& id,
               Done<v1::Video> done);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_JOB_ADMISSION_H_
