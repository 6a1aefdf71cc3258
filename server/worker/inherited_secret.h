// What a supervised worker proves to its frontend that it is: the secret of its incarnation, which waits for it in a
// pipe that it inherited (WorkerConfig.secret_fd).
#ifndef KINORA_SERVER_WORKER_INHERITED_SECRET_H_
#define KINORA_SERVER_WORKER_INHERITED_SECRET_H_

#include <string>

#include "absl/status/statusor.h"

namespace kinora {

// Reads and closes `fd`. InvalidArgument: it is no pipe, or does not hold kSecretBytes.
absl::StatusOr<std::string> ReadInheritedSecret(int fd);

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_INHERITED_SECRET_H_
