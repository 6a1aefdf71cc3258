// Another program, run to its end.
#ifndef KINORA_SERVER_COMMON_RUN_PROGRAM_H_
#define KINORA_SERVER_COMMON_RUN_PROGRAM_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace kinora {

struct ProgramEnd {
  bool ended = true;     // false: it took too long and was killed
  int exit_status = 0;   // of one that a signal ended: 128 and the signal
  std::string out, err;  // what it wrote to standard output and standard error, whoever may still hold them
};

// Waits for it, for `patience` at most; its standard input is empty. `binary`: a path, not looked for elsewhere.
// Naming the path: NotFound, or what else kept it from starting; ResourceExhausted: it wrote more than 16 MiB, and was
// killed; otherwise why its end is not known.
absl::StatusOr<ProgramEnd> RunProgram(const std::string& binary, const std::vector<std::string>& arguments,
                                      absl::Duration patience);

// The folder of the program that is running now.
std::string FolderOfThisProgram();

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_RUN_PROGRAM_H_
