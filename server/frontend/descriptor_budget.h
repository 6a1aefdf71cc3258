// Divides the file descriptors of the process among their uses at the start, so that no use exhausts those of another:
// a job's files never cost a connection its descriptor, nor the other way round.
#ifndef KINORA_SERVER_FRONTEND_DESCRIPTOR_BUDGET_H_
#define KINORA_SERVER_FRONTEND_DESCRIPTOR_BUDGET_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "kinora/v1/config.pb.h"

namespace kinora {

struct DescriptorBudget {
  int64_t limit = 0;      // for the process: ulimit -n
  int64_t process = 0;    // standard streams, libraries, epolls, threads' wake-ups, listeners, self-checks
  int64_t store = 0;      // jobs.db with its log and readers, files being read or written, folders
  int64_t pages = 0;      // connections to http_address
  int64_t admin = 0;      // connections to admin_address
  int64_t gateway = 0;    // connections to gateway.sock
  int64_t join = 0;       // connections to join_address
  int64_t peers = 0;      // connections to peer_address, and to those of others
  int64_t workers = 0;    // pipes and connections of worker processes
  int connections = 0;    // to `address`, two descriptors each: max_connections, or as many as fit
  int64_t downloads = 0;  // 0: a download holds no descriptor between two chunks

  std::string ToString() const;  // "64 process, 64 store, …, 2000 for 1000 connections, 0 downloads"
};

// Fails with FailedPrecondition, naming the required limit, if fewer than 16 connections would be left.
absl::StatusOr<DescriptorBudget> DivideDescriptors(int64_t limit, const v1::FrontendConfig& config);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_DESCRIPTOR_BUDGET_H_
