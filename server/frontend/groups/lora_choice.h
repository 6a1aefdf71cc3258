// Which of several groups a job's LoRAs speak for: one that has the files, and of those one whose weights bear them
// already, so that nothing is put on.
#ifndef KINORA_SERVER_FRONTEND_GROUPS_LORA_CHOICE_H_
#define KINORA_SERVER_FRONTEND_GROUPS_LORA_CHOICE_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "kinora/v1/video_generation.pb.h"
#include "server/frontend/jobs/job_queue.h"

namespace kinora {

class WorkerGroup;

// Equal of sets that are the same weights: those that do something, in their order.
std::string LoraKey(absl::Span<const v1::LoraRef> loras);

// What the weights bear in the first stage of a job's run.
std::string FirstLoras(const QueuedJob& job, const v1::ModelInfo& model);

// Whether the model has every one of the job's, by its digest where the job has that.
bool HasLoras(const QueuedJob& job, const v1::ModelInfo& model);

// Of `idle`, the longest idle first, the group that is to run the job; null: none. models: of all groups that run jobs
// or are awaited back: a job whose LoRAs only one of them has waits for its group, and one whose LoRAs none has fails
// on the first.
WorkerGroup* GroupFor(const QueuedJob& job, absl::Span<WorkerGroup* const> idle,
                      absl::Span<const v1::ModelInfo* const> models);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_LORA_CHOICE_H_
