// How the descriptors that a process may have are divided at the start, so that no use of one takes those of another: a
// connection never ends for want of a descriptor that a job's file took, nor the other way round.
#ifndef KINORA_SERVER_FRONTEND_DESCRIPTOR_BUDGET_H_
#define KINORA_SERVER_FRONTEND_DESCRIPTOR_BUDGET_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "kinora/v1/config.pb.h"

namespace kinora {

struct DescriptorBudget {
  int64_t limit = 0;      // of the process: ulimit -n
  int64_t process = 0;    // standard streams, libraries, epolls, threads' wake-ups, listeners, calls to itself
  int64_t store = 0;      // jobs.db with its log and its readers, a file that is written or read, folders
  int64_t pages = 0;      // connections to http_address
  int64_t admin = 0;      // connections to admin_address
  int64_t join = 0;       // connections to join_address
  int64_t workers = 0;    // pipes and connections of the processes that are started
  int connections = 0;    // to `address`, each of two descriptors: max_connections, or what is left
  int64_t downloads = 0;  // an open download holds none between two chunks

  std::string ToString() const;  // "64 process, 64 store, …, 2000 for 1000 connections, 0 downloads"
};

// FailedPrecondition: fewer than 16 connections would be left; says which limit is needed.
absl::StatusOr<DescriptorBudget> DivideDescriptors(int64_t limit, const v1::FrontendConfig& config);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_DESCRIPTOR_BUDGET_H_
