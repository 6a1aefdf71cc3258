// A Rendezvous over the Join streams; the frontend forwards what a rank publishes (worker.proto). Thread-safe.
#ifndef KINORA_SERVER_WORKER_JOIN_RENDEZVOUS_H_
#define KINORA_SERVER_WORKER_JOIN_RENDEZVOUS_H_

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/processes/rendezvous.h"
#include "kinora/v1/worker.pb.h"

namespace kinora {

class JoinRendezvous : public Rendezvous {
 public:
  // send: sends a message to the frontend; called on any thread.
  explicit JoinRendezvous(std::function<void(const v1::WorkerMessage&)> send) : send_(std::move(send)) {}

  void Publish(const std::string& key, const std::string& value) override;
  absl::StatusOr<std::string> Await(int rank, const std::string& key, absl::Duration patience) override;

  // Called with each publication that the stream delivers.
  void Receive(const v1::Rendezvous& published);
  // Ends every present and later Await with `why`, which must not be OK. Only the first call has an effect.
  void Abort(const absl::Status& why);

 private:
  const std::function<void(const v1::WorkerMessage&)> send_;
  absl::Mutex mu_;
  std::map<std::pair<int, std::string>, std::string> published_ ABSL_GUARDED_BY(mu_);  // by rank and key
  absl::Status aborted_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_JOIN_RENDEZVOUS_H_
