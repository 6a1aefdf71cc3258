#include "server/frontend/jobs/work_queue.h"

#include "server/common/timestamps.h"

namespace kinora {

QueuedJob ToQueuedJob(const v1::Video& video, const v1::Scheduling& scheduling) {
  QueuedJob job{.id = video.id(),
                .model = video.model(),
                .priority = scheduling.priority(),
                .create_time = FromProto(video.create_time()),
                .estimated_seconds = video.estimated_seconds(),
                .recipe = video.effective().recipe(),
                .loras = {video.effective().loras().begin(), video.effective().loras().end()}};
  if (scheduling.has_deadline()) job.deadline = job.create_time + FromProto(scheduling.deadline());
  return job;
}

}  // namespace kinora
