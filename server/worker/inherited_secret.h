// The secret by which a supervised worker proves its identity to its frontend. The frontend creates one per incarnation
// and passes it in a pipe that the worker inherits (WorkerConfig.secret_fd).
#ifndef KINORA_SERVER_WORKER_INHERITED_SECRET_H_
#define KINORA_SERVER_WORKER_INHERITED_SECRET_H_

#include <string>

#include "absl/status/statusor.h"

namespace kinora {

// Reads and closes `fd`. Fails with InvalidArgument if it is not a pipe or does not hold exactly kSecretBytes.
absl::StatusOr<std::string> ReadInheritedSecret(int fd);

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_INHERITED_SECRET_H_
