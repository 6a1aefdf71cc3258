// Chooses a group for a job by its LoRAs: a group that has the files, preferably one whose weights have them merged
// already.
#ifndef KINORA_SERVER_FRONTEND_GROUPS_LORA_CHOICE_H_
#define KINORA_SERVER_FRONTEND_GROUPS_LORA_CHOICE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "kinora/v1/video_generation.pb.h"
#include "server/frontend/groups/preemption.h"
#include "server/frontend/jobs/work_queue.h"

namespace kinora {

struct IdleGroup {
  std::string id, incarnation;
  v1::ModelInfo model;
  std::string worn;                       // WorkerGroup::worn
  std::optional<Reservation> reserved{};  // for one job
};
struct GroupsNow {                    // a copy, for any thread
  std::vector<IdleGroup> idle;        // longest idle first
  std::vector<v1::ModelInfo> models;  // of all groups that run jobs or may come back
  bool HasIdle(const std::string& id, const std::string& incarnation) const;
};

// A key for the merged weights: the LoRAs with a strength other than 0, in order.
std::string LoraKey(absl::Span<const v1::LoraRef> loras);

// LoraKey of the LoRAs in the first stage of the job's run, including the distilled LoRA of its recipe.
std::string FirstLoras(const QueuedJob& job, const v1::ModelInfo& model);

// Returns whether the model has all LoRAs of the job, by digest where the job specifies one.
bool HasLoras(const QueuedJob& job, const v1::ModelInfo& model);

// Returns the idle group that should run the job, or null. Passes over groups that are reserved for another. If only
// some groups have the job's LoRAs, the job waits for such a group; if none has, the first group of its model runs it,
// and it fails there.
const IdleGroup* GroupFor(const QueuedJob& job, const GroupsNow& groups);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_LORA_CHOICE_H_
