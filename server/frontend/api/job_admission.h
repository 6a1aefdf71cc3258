// From a CreateVideoRequest to a job that waits: model, validation, disk, memory, a place in the queue, the store. The
// same way for CreateVideo and GenerateVideo.
#ifndef KINORA_SERVER_FRONTEND_API_JOB_ADMISSION_H_
#define KINORA_SERVER_FRONTEND_API_JOB_ADMISSION_H_

#include <functional>

#include "server/frontend/api/service_context.h"

namespace kinora {

struct Validated {
  v1::CreateVideoRequest request;  // with the model's id filled in
  v1::Generation effective;
};

// `done` runs on a thread of the store.
void Validate(ServiceContext& context, const v1::CreateVideoRequest& request, Done<Validated> done);
// `tied`: the job is to end with the stream that made it, unless the request says detach.
void Admit(ServiceContext& context, const v1::CreateVideoRequest& request, bool tied, Done<Created> done);

// Adds what only this process knows: the place in the queue and the latest step.
void AddLiveFields(const ServiceContext& context, v1::Video& video);

// Stores the cancel of a job and tells the queue and the dispatcher; what CancelVideo and a broken GenerateVideo do.
void CancelJob(JobStore& store, JobQueue& queue, const std::function<void(const JobId&)>& cancel_run, const JobId& id,
               Done<v1::Video> done);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_JOB_ADMISSION_H_
