// Ranks that are processes forked from this one, for a program without a server and for tests.
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

  // Forks a process per rank, which runs the body, returns its result and exits without destructors or exit handlers.
  // Each has its own process group, so that only this process gets a Ctrl-C, and the kernel kills it when this process
  // ends. If one ends without a result, the others' rendezvous fails once Wait has noticed. This process must have one
  // thread and must not have used a GPU. Fails with Unavailable if a rank cannot be started.
  static absl::StatusOr<std::unique_ptr<ForkedRanks>> Start(int ranks, const Body& body);
  ~ForkedRanks();  // kills and awaits ranks that still run

  pid_t pid(int rank) const { return ranks_[rank].pid; }
  // Waits until a rank has sent data or ended, `until` (Clock::Steady) or an hour has passed, or a signal handler has
  // run.
  void Wait(absl::Time until);
  bool ended(int rank) const { return ranks_[rank].ended; }
  bool all_ended() const;
  // Returns the body's result for a rank that has ended (CHECK), with its mark (agree.h); Unavailable if the rank ended
  // without one: "rank 1: killed by signal 9".
  absl::StatusOr<std::string> Result(int rank) const;
  // Waits for the rank to end, then returns Result.
  absl::StatusOr<std::string> AwaitResult(int rank);

 private:
  struct Rank {
    pid_t pid = 0;
    FileDescriptor answer;
    std::string text;  // the answer so far
    bool ended = false;
    int wait_status = 0;
  };
  void Read(Rank& rank);
  static bool Answered(const Rank& rank);  // the rank must have ended

  std::unique_ptr<RendezvousHub> hub_;
  std::vector<Rank> ranks_;
};

// As RunThreadRanks, on processes of this host, each with the mesh that MakeProcessMesh makes for `device`; this
// process uses no device. `cancelled`: set by a signal handler; rank 0 then gets a SIGTERM. After a rank has failed
// alone, the others have a few seconds to end by themselves. In a trace, adds the tracks of the ranks that succeeded to
// this process's.
absl::Status RunProcessRanks(const MeshShape& shape, const std::string& device, const std::atomic<bool>& cancelled,
                             const std::function<absl::Status(const Mesh&)>& body);

}  // namespace kinora

#endif  // KINORA_ENGINE_PROCESSES_FORKED_RANKS_H_
