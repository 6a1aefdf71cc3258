// Ranks that are processes forked from this one: for a program that is run once and has no server, and for tests.
#ifndef KINORA_ENGINE_PROCESSES_FORKED_RANKS_H_
#define KINORA_ENGINE_PROCESSES_FORKED_RANKS_H_

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/base/file_descriptor.h"
#include "engine/parallel/mesh.h"
#include "engine/processes/socket_rendezvous.h"

namespace kinora {

class ForkedRanks {
 public:
  using Body = std::function<absl::StatusOr<std::string>(int rank, Rendezvous& rendezvous)>;

  // Forks a process per rank, which runs the body, answers and ends without destructors or exit handlers. They are in
  // process groups of their own, so that a Ctrl-C is this process's to handle, and the kernel ends them with it. One
  // that ends without an answer ends the rendezvous of the others once Wait has seen it. For a process of one thread
  // that has not touched a GPU. Unavailable.
  static absl::StatusOr<std::unique_ptr<ForkedRanks>> Start(int ranks, const Body& body);
  ~ForkedRanks();  // kills and awaits what still runs

  pid_t pid(int rank) const { return ranks_[rank].pid; }
  // Waits until the process has ended or `until` (Clock::Steady) has come or a signal handler has run.
  void Wait(absl::Time until);
  bool ended(int rank) const { return ranks_[rank].ended; }
  bool all_ended() const;
  // What the body of a rank that has ended returned, with its mark (agree.h); Unavailable if it ended otherwise: "rank
  // 1: killed by signal 9".
  absl::StatusOr<std::string> Result(int rank) const;
  // The same, after waiting for it.
  absl::StatusOr<std::string> AwaitResult(int rank);

 private:
  struct Rank {
    pid_t pid = 0;
    FileDescriptor answer;
    std::string text;  // so far
    bool ended = false;
    int wait_status = 0;
  };
  void Read(Rank& rank);
  static bool Answered(const Rank& rank);  // of one that has ended

  std::unique_ptr<RendezvousHub> hub_;
  std::vector<Rank> ranks_;
};

// As RunThreadRanks, on processes of this host, each with the mesh that MakeProcessMesh makes for `device`; this
// process touches no device. `cancelled`: set by a signal handler; rank 0 gets a SIGTERM then. A rank that has failed
// alone leaves the others a moment to end by themselves. In a trace, the tracks of the ranks that ended well are part
// of this process's.
absl::Status RunProcessRanks(const MeshShape& shape, const std::string& device, const std::atomic<bool>& cancelled,
                             const std::function<absl::Status(const Mesh&)>& body);

}  // namespace kinora

#endif  // KINORA_ENGINE_PROCESSES_FORKED_RANKS_H_
