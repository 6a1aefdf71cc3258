// The whole frontend of one machine, put together from a configuration: state directory, job store, queue, dispatcher,
// the supervised worker groups, servers and pages. kinora-frontend is this and a signal handler.
#ifndef KINORA_SERVER_FRONTEND_FRONTEND_H_
#define KINORA_SERVER_FRONTEND_FRONTEND_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "kinora/v1/config.pb.h"

namespace kinora {

class Frontend {
 public:
  // Starts everything; jobs that an earlier frontend left are queued again before the first call is served. Errors name
  // the field of the configuration.
  static absl::StatusOr<std::unique_ptr<Frontend>> Start(const v1::FrontendConfig& config, Clocks clocks = {});
  virtual ~Frontend() = default;  // without Drain: like a crash, but in order

  // Stops admitting, gives running jobs drain_grace_seconds to end, queues what is left again, ends the worker and the
  // servers. Blocks. Idempotent.
  virtual void Drain() = 0;

  virtual int port() const = 0;       // of the public API; 0 on a Unix socket
  virtual int join_port() const = 0;  // 0: none
  virtual int http_port() const = 0;  // 0: no pages
};

// What --check-config looks at beyond the fields themselves: certificates and their key, tokens, the state directory if
// it is there, the worker's binary. InvalidArgument, each error with the field's name.
absl::Status CheckFrontendFiles(const v1::FrontendConfig& config);

// Fields whose default depends on others: admin_address, worker_binary.
v1::FrontendConfig WithDerivedDefaults(v1::FrontendConfig config);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_FRONTEND_H_
