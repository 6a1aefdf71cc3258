// Runs another program to its end.
#ifndef KINORA_SERVER_COMMON_RUN_PROGRAM_H_
#define KINORA_SERVER_COMMON_RUN_PROGRAM_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace kinora {

struct ProgramEnd {
  bool ended = true;     // false: it took too long and was killed
  int exit_status = 0;   // 128 + the signal if a signal ended it
  std::string out, err;  // standard output and standard error, even if others still hold them open
};

// Runs `binary`, a path that is not searched for elsewhere, with an empty standard input, and waits for its end for at
// most `patience`. Errors that name the path: NotFound if it cannot be started, ResourceExhausted if it wrote more than
// 16 MiB to either output and was killed, others if waiting for its end failed. Internal if there is no memory file for
// its output.
absl::StatusOr<ProgramEnd> RunProgram(const std::string& binary, const std::vector<std::string>& arguments,
                                      absl::Duration patience);

// Returns the folder of the program that this process runs; "." if it is unknown.
std::string FolderOfThisProgram();

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_RUN_PROGRAM_H_
