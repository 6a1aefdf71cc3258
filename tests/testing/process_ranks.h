// Runs one function on ranks that are forked processes, and hands back what each made, or how it ended.
#ifndef KINORA_TESTS_TESTING_PROCESS_RANKS_H_
#define KINORA_TESTS_TESTING_PROCESS_RANKS_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/file_descriptor.h"
#include "engine/parallel/mesh.h"
#include "engine/processes/rendezvous.h"
#include "engine/processes/socket_rendezvous.h"

namespace kinora {

class ProcessRanks {
 public:
  using Body = std::function<absl::StatusOr<std::string>(int rank, Rendezvous& rendezvous)>;
  // Starts a process per rank. For a test program that has no thread of its own at that time. EXPECT inside the body
  // is not heard: it answers instead.
  ProcessRanks(int ranks, const Body& body);
  ~ProcessRanks();  // kills what still runs

  pid_t pid(int rank) const { return pids_[rank]; }
  // What the body of that rank returned; Unavailable if it ended otherwise: "killed by signal 9". Waits. Once.
  absl::StatusOr<std::string> Result(int rank);

 private:
  std::unique_ptr<RendezvousHub> hub_;
  std::vector<pid_t> pids_;
  std::vector<FileDescriptor> results_;
};

// The bodies' results in rank order, on a mesh of sockets; a rank that fails is a test failure.
std::vector<std::string> RunSocketRanks(const MeshShape& shape,
                                        const std::function<absl::StatusOr<std::string>(const Mesh&)>& body);

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_PROCESS_RANKS_H_
