// One outcome for all ranks of a run.
//
// A failure that every rank leaves with at the same place is *agreed*: none waits for another in a collective, so the
// group can be used for the next run, as one rank alone can. A failure without the mark happened to one rank: others
// may wait for it, and its mesh must be aborted (OnEveryRank, thread_communicator.h). The mark is a payload of the
// status; one that is made anew from a code and a message has lost it.
#ifndef KINORA_ENGINE_PARALLEL_AGREE_H_
#define KINORA_ENGINE_PARALLEL_AGREE_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/parallel/exec.h"

namespace kinora {

// Of exec.arena, that an agreement among several ranks takes.
inline constexpr int64_t kAgreementBytes = 64;

// OK, or marked as agreed.
bool IsAgreed(const absl::Status& status);
// Marks a failure that all ranks leave with at this place. OK stays OK.
absl::Status Agreed(absl::Status status);
// The same failure without the mark, for whoever knows of no ranks.
absl::Status WithoutMark(absl::Status status);

// Of how the ranks of a group ended, the one that the others followed from, lowest rank first: what failed alone, but
// what is Aborted only if nothing else did; else what is agreed, but Cancelled only if nothing else is; else OK.
absl::Status CauseOf(absl::Span<const absl::Status> results);

// Rank 0's status on every rank of exec.mesh.world(): OK on all, or agreed: rank 0's own there and Cancelled elsewhere.
// What the other ranks pass is not looked at. Waits for the device; costs nothing in a group of one or in a dry run. A
// failure of the exchange itself is not agreed.
absl::Status AgreeWithRankZero(Exec& exec, const absl::Status& status);

// The same, and where it is OK rank 0's numbers on every rank: all pass as many. 16 bytes of exec.arena for each.
absl::Status ShareFromRankZero(Exec& exec, const absl::Status& status, absl::Span<int64_t> numbers);

// OK if every rank passes OK. Otherwise agreed: its own failure on a rank that has one, Cancelled elsewhere. Costs as
// above.
absl::Status AgreeAmongAll(Exec& exec, const absl::Status& status);

// Runs `action` on rank 0 alone and agrees on how it went.
absl::Status OnRankZero(Exec& exec, absl::FunctionRef<absl::Status()> action);

}  // namespace kinora

#endif  // KINORA_ENGINE_PARALLEL_AGREE_H_
