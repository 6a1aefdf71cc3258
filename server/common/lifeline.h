// Ends a process that the frontend started when the frontend ends, even by a crash. The process inherits the read end
// of a pipe whose write end only the frontend holds, and the kernel closes the write end in every case.
#ifndef KINORA_SERVER_COMMON_LIFELINE_H_
#define KINORA_SERVER_COMMON_LIFELINE_H_

#include "absl/status/status.h"

namespace kinora {

// Starts a thread that ends the process at end of file on `fd`, with exit status 0 and without running destructors,
// which could block. Fails with InvalidArgument if `fd` is not a pipe.
absl::Status HoldOnToLifeline(int fd);

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_LIFELINE_H_
