// How ranks that are processes tell each other what they need before they can talk directly: addresses, ids of
// communicators.
#ifndef KINORA_ENGINE_PROCESSES_RENDEZVOUS_H_
#define KINORA_ENGINE_PROCESSES_RENDEZVOUS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace kinora {

class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  // To every other rank, also to those that come later. Once for each key.
  virtual void Publish(const std::string& key, const std::string& value) = 0;
  // Waits for what `rank`, another one, publishes under `key`. DeadlineExceeded, naming both, after `patience`; at once
  // the failure of the way between the ranks.
  virtual absl::StatusOr<std::string> Await(int rank, const std::string& key, absl::Duration patience) = 0;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PROCESSES_RENDEZVOUS_H_
