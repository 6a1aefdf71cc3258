// Two hosts in one machine: network namespaces with two cables between them, one over which workers join and one for
// what ranks send each other.
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
  // FailedPrecondition, with what `ip` said: there is none here, or this user may not.
  static absl::StatusOr<std::unique_ptr<TwoHosts>> Make();
  ~TwoHosts();
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  // `command` as it is run on `host`; it becomes the process, so that a signal reaches it.
  std::vector<std::string> On(int host, const std::vector<std::string>& command) const;
  // Pulls out the cable, or puts it in again. interface: "control", "data".
  void SetLink(const std::string& interface, bool up) const;

 private:
  TwoHosts();
  absl::Status Connect() const;
  std::string Name(int host) const;

  const std::string ip_;  // the program's path
};

}  // namespace kinora

#endif  // KINORA_TESTS_E2E_TWO_HOSTS_H_
