// How every store is called. Thread-safe. Each call is one transaction. Calls return at once and never block on the
// disk; `done` runs after the commit on a thread of the store, never on the caller's. It must not block, but may call
// the store again, finish an RPC or wake another thread.
//
// Errors of any call: ResourceExhausted (disk full), Unavailable (the store is closed, its file is locked or its
// database is away; with ErrorInfo COMMIT_UNKNOWN the change may have been made), DataLoss (its file is damaged).
#ifndef KINORA_SERVER_FRONTEND_JOBS_STORE_CALL_H_
#define KINORA_SERVER_FRONTEND_JOBS_STORE_CALL_H_

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kinora {

template <typename T>
using Done = absl::AnyInvocable<void(absl::StatusOr<T>)>;
using Finished = absl::AnyInvocable<void(absl::Status)>;

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_STORE_CALL_H_
