// A rendezvous without a server, for processes that one process starts: each has a socket pair to the starter, which
// forwards published values. For `kinora-render --processes` and for tests.
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

// The starter's side. Forwards each rank's values to all others.
class RendezvousHub {
 public:
  // Fails with Unavailable if no sockets can be made.
  static absl::StatusOr<std::unique_ptr<RendezvousHub>> Open(int ranks);
  ~RendezvousHub();  // ends the ranks' waits with Unavailable

  // The descriptor for that rank's SocketRendezvous, inherited by its process. The hub owns it. Closed on exec.
  int RankEnd(int rank) const { return rank_ends_[rank].get(); }
  // Call in a forked rank, after duplicating its end: closes the descriptors of the starter and of all ranks.
  void CloseInRank();
  // Call after starting the processes. Closes the ranks' ends here, so that the end of a rank is noticed, and starts
  // the forwarding thread.
  void Start();

 private:
  RendezvousHub() = default;
  void PassOn();

  std::vector<FileDescriptor> hub_ends_, rank_ends_;
  FileDescriptor stop_;  // an eventfd
  std::thread thread_;
};

// A rank's side. A key and its value have at most kMaxBytes (CHECK). Thread-safe: one of the waiting threads reads for
// all.
class SocketRendezvous : public Rendezvous {
 public:
  static constexpr size_t kMaxBytes = 16 << 10;
  explicit SocketRendezvous(FileDescriptor end) : end_(std::move(end)) {}

  void Publish(const std::string& key, const std::string& value) override;
  // Fails with Unavailable once the starter has ended or has destroyed its hub.
  absl::StatusOr<std::string> Await(int rank, const std::string& key, absl::Duration patience) override;

 private:
  using Deadline = std::chrono::steady_clock::time_point;
  // Receives one message; returns false if none arrived in time. Called by one thread at a time.
  absl::StatusOr<bool> Receive(Deadline deadline);

  const FileDescriptor end_;
  std::mutex mu_;  // guards the members below
  std::condition_variable changed_;
  bool reading_ = false;                                          // a thread is in Receive
  std::map<std::pair<int, std::string>, std::string> published_;  // by rank and key
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PROCESSES_SOCKET_RENDEZVOUS_H_
