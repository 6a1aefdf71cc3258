// Rendezvous of processes that one process starts, without a server: each has a pair of sockets to the starter, which
// passes on what they publish. For `kinora-render --processes` and for tests.
#ifndef KINORA_ENGINE_PROCESSES_SOCKET_RENDEZVOUS_H_
#define KINORA_ENGINE_PROCESSES_SOCKET_RENDEZVOUS_H_

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/file_descriptor.h"
#include "engine/processes/rendezvous.h"

namespace kinora {

// The starter's side. What one rank publishes reaches each of the others.
class RendezvousHub {
 public:
  // Unavailable: no sockets are left.
  static absl::StatusOr<std::unique_ptr<RendezvousHub>> Open(int ranks);
  ~RendezvousHub();  // ends the ranks' waits with Unavailable

  // For SocketRendezvous of that rank: inherited by its process, and closed by nobody else. Closed on exec.
  int RankEnd(int rank) const { return rank_ends_[rank].get(); }
  // In a process that was forked, once it has its end: closes the starter's and the others'.
  void CloseInRank();
  // After the processes have been started: closes the ranks' ends here, so that a rank's end is noticed, and passes on
  // from a thread of its own.
  void Start();

 private:
  RendezvousHub() = default;
  void PassOn();

  std::vector<FileDescriptor> hub_ends_, rank_ends_;
  FileDescriptor stop_;  // an eventfd
  std::thread thread_;
};

// A rank's side. Values up to kMaxBytes with their key (CHECK). Thread-safe: of the threads that wait one reads, for
// all.
class SocketRendezvous : public Rendezvous {
 public:
  static constexpr size_t kMaxBytes = 16 << 10;
  explicit SocketRendezvous(FileDescriptor end) : end_(std::move(end)) {}

  void Publish(const std::string& key, const std::string& value) override;
  // Unavailable once the starter has gone or has ended its hub.
  absl::StatusOr<std::string> Await(int rank, const std::string& key, absl::Duration patience) override;

 private:
  using Deadline = std::chrono::steady_clock::time_point;
  // One message; false: none came in time. By one thread at a time.
  absl::StatusOr<bool> Receive(Deadline deadline);

  const FileDescriptor end_;
  std::mutex mu_;  // of what follows
  std::condition_variable changed_;
  bool reading_ = false;                                          // a thread does
  std::map<std::pair<int, std::string>, std::string> published_;  // by rank and key
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PROCESSES_SOCKET_RENDEZVOUS_H_
