// A worker of an embedded group must not outlive its frontend, however that ends: it inherits the read end of a pipe
// whose other end only the frontend holds, and the kernel closes that one whatever happens.
#ifndef KINORA_SERVER_WORKER_LIFELINE_H_
#define KINORA_SERVER_WORKER_LIFELINE_H_

#include "absl/status/status.h"

namespace kinora {

// Starts a thread that ends the process (exit status 0, without destructors: nothing may hold it up) at the end of file
// of `fd`. InvalidArgument: `fd` is no pipe.
absl::Status HoldOnToLifeline(int fd);

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_LIFELINE_H_
