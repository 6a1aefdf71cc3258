// Simulates two hosts on one machine: network namespaces connected by two cables, one for joining workers and one for
// data between ranks.
//   host 0: 10.83.1.1 on "control", 10.83.2.1 on "data"      host 1: 10.83.1.2, 10.83.2.2
#ifndef KINORA_TESTS_E2E_TWO_HOSTS_H_
#define KINORA_TESTS_E2E_TWO_HOSTS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kinora {

class TwoHosts {
 public:
  // Fails with FailedPrecondition and the output of `ip` if it is missing or this user may not use it.
  static absl::StatusOr<std::unique_ptr<TwoHosts>> Make();
  ~TwoHosts();
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  // Returns a command that runs `command` on `host`. It replaces its process by exec, so that signals reach `command`.
  std::vector<std::string> On(int host, const std::vector<std::string>& command) const;
  // Disconnects or reconnects a cable. `interface` is "control" or "data".
  void SetLink(const std::string& interface, bool up) const;

 private:
  TwoHosts();
  absl::Status Connect() const;
  std::string Name(int host) const;

  const std::string ip_;  // path of the program
};

}  // namespace kinora

#endif  // KINORA_TESTS_E2E_TWO_HOSTS_H_
