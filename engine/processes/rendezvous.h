// Exchanges the data that ranks in separate processes need before they can communicate directly: addresses, ids of
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
  // Publishes a value to every other rank, including those that join later. Once per key.
  virtual void Publish(const std::string& key, const std::string& value) = 0;
  // Waits for the value that another rank, `rank`, publishes under `key`. Fails with DeadlineExceeded, naming both,
  // after `patience`; immediately if the connection between the ranks fails.
  virtual absl::StatusOr<std::string> Await(int rank, const std::string& key, absl::Duration patience) = 0;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PROCESSES_RENDEZVOUS_H_
