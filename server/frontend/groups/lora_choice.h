// Chooses a group for a job by its LoRAs: a group that has the files, preferably one whose weights have them merged
// already.
#ifndef KINORA_SERVER_FRONTEND_GROUPS_LORA_CHOICE_H_
#define KINORA_SERVER_FRONTEND_GROUPS_LORA_CHOICE_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "kinora/v1/video_generation.pb.h"
#include "server/frontend/jobs/job_queue.h"

namespace kinora {

class WorkerGroup;

// A key for the merged weights: the LoRAs with a strength other than 0, in order.
std::string LoraKey(absl::Span<const v1::LoraRef> loras);

// LoraKey of the LoRAs in the first stage of the job's run, including the distilled LoRA of its recipe.
std::string FirstLoras(const QueuedJob& job, const v1::ModelInfo& model);

// Returns whether the model has all LoRAs of the job, by digest where the job specifies one.
bool HasLoras(const QueuedJob& job, const v1::ModelInfo& model);

// Returns the group in `idle` that should run the job, or null. idle: longest idle first. models: those of all groups
// that run jobs or may come back. If only some have the job's LoRAs, the job waits for such a group; if none has, the
// first group of its model runs it, and it fails there.
WorkerGroup* GroupFor(const QueuedJob& job, absl::Span<WorkerGroup* const> idle,
                      absl::Span<const v1::ModelInfo* const> models);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_LORA_CHOICE_H_
