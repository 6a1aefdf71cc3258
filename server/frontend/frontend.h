// The whole frontend of one machine, assembled from a configuration: state directory, job store, queue, dispatcher,
// supervised worker groups, gateway, servers and pages. kinora-frontend is this and a signal handler.
#ifndef KINORA_SERVER_FRONTEND_FRONTEND_H_
#define KINORA_SERVER_FRONTEND_FRONTEND_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "kinora/v1/config.pb.h"

namespace kinora {

class Frontend {
 public:
  // Starts everything. Unfinished jobs of an earlier frontend are queued again before the first call is served. Errors
  // name the field of the configuration.
  static absl::StatusOr<std::unique_ptr<Frontend>> Start(const v1::FrontendConfig& config, Clocks clocks = {});
  virtual ~Frontend() = default;  // stops everything; without Drain, running jobs are left as after a crash

  // Stops admitting jobs, gives running jobs drain_grace_seconds to end, requeues the rest, stops the workers and the
  // servers. Blocks. Idempotent.
  virtual void Drain() = 0;

  // `listener` is called once, with the error that --check-config would report, if no group can load its model as
  // configured. It runs on a thread of the frontend, or before this returns if the error is already known.
  virtual void SetWrongStartListener(std::function<void(const absl::Status&)> listener) = 0;

  virtual int port() const = 0;       // of the public API; 0 on a Unix socket
  virtual int join_port() const = 0;  // 0: no join_address
  virtual int http_port() const = 0;  // 0: no pages
  // Where its own gateway serves: "http://127.0.0.1:8472/"; "": it has none.
  virtual std::string page() const = 0;
};

// Checks what --check-config checks beyond the fields themselves: certificates and their key, tokens, model
// descriptions, the state directory if it exists, the worker binary. InvalidArgument lists each error with its field.
absl::Status CheckFrontendFiles(const v1::FrontendConfig& config);

// Fills in the defaults that depend on other fields: admin_address, worker_binary, gateway_binary.
v1::FrontendConfig WithDerivedDefaults(v1::FrontendConfig config);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_FRONTEND_H_
