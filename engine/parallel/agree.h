// Makes all ranks of a run end with one outcome.
//
// A failure is *agreed* if every rank returns with it at the same point: no rank waits for another in a collective, so
// the group can serve the next run. A failure without the mark happened to one rank: others may be waiting for it, and
// its mesh must be aborted (OnEveryRank, thread_communicator.h). The mark is a payload of the status; a status rebuilt
// from a code and a message loses it.
#ifndef KINORA_ENGINE_PARALLEL_AGREE_H_
#define KINORA_ENGINE_PARALLEL_AGREE_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/parallel/exec.h"

namespace kinora {

// Bytes of exec.arena that an agreement among several ranks needs.
inline constexpr int64_t kAgreementBytes = 64;

// Whether `status` is OK or marked as agreed.
bool IsAgreed(const absl::Status& status);
// Marks a failure with which all ranks return at this point. OK stays OK.
absl::Status Agreed(absl::Status status);
// Returns the failure without the mark, for callers that are not aware of ranks.
absl::Status WithoutMark(absl::Status status);

// Returns the result that caused the others, among those of a group's ranks. In order of preference, lowest rank first:
// an unagreed failure other than Aborted, an unagreed Aborted, an agreed failure other than Cancelled, an agreed
// Cancelled, OK.
absl::Status CauseOf(absl::Span<const absl::Status> results);

// Returns rank 0's status on every rank of exec.mesh.world(): OK on all, or an agreed failure, rank 0's own on rank 0
// and Cancelled elsewhere. Ignores the other ranks' statuses. Waits for the device; costs nothing in a group of one or
// in a dry run. A failure of the exchange itself is not agreed.
absl::Status AgreeWithRankZero(Exec& exec, const absl::Status& status);

// As AgreeWithRankZero; if the result is OK, also copies rank 0's numbers to every rank. All ranks must pass equally
// many. Uses 16 bytes of exec.arena per number.
absl::Status ShareFromRankZero(Exec& exec, const absl::Status& status, absl::Span<int64_t> numbers);

// Returns OK if every rank passes OK. Otherwise returns an agreed failure: the rank's own if it has one, else
// Cancelled. Costs as AgreeWithRankZero.
absl::Status AgreeAmongAll(Exec& exec, const absl::Status& status);

// Runs `action` on rank 0 alone; all ranks agree on its status.
absl::Status OnRankZero(Exec& exec, absl::FunctionRef<absl::Status()> action);

}  // namespace kinora

#endif  // KINORA_ENGINE_PARALLEL_AGREE_H_
