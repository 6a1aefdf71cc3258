// Starts kinora-gateway beside the frontend, so that a browser or a program that speaks HTTP reaches it at web_address.
//
// - A process that ends is started again, after a pause that begins at 0.5 s, doubles up to 30 s, and is reset once a
//   process has lived for a minute. The supervisor holds the listening sockets: while no process runs, clients wait.
// - The process calls the frontend at gateway.sock and ends with it, however that ends (child_process.h).
// - It serves TLS with the files of `tls` if web_address is not loopback. If `tls` asks clients for a certificate, it
//   does so on loopback, too: otherwise everyone on this machine could use the API without one.
#ifndef KINORA_SERVER_FRONTEND_GATEWAY_SUPERVISOR_H_
#define KINORA_SERVER_FRONTEND_GATEWAY_SUPERVISOR_H_

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"
#include "kinora/v1/config.pb.h"
#include "server/frontend/groups/child_process.h"
#include "server/net/listen_address.h"

namespace kinora {

class GatewaySupervisor {
 public:
  // Binds web_address. Returns null if there is none, or if it is the default and cannot be served, which is logged.
  // Errors: those of ListeningSockets::Bind for the field web_address. `clock` times the pauses.
  static absl::StatusOr<std::unique_ptr<GatewaySupervisor>> Bind(const v1::FrontendConfig& config, Clock& clock);
  ~GatewaySupervisor() { Stop(); }

  void Start();  // once gateway.sock serves
  // Lets open requests end for a second, then ends the process and closes the sockets. Blocks. Idempotent.
  void Stop();
  // The address for a browser, "http://127.0.0.1:8472/"; for a Unix socket, "unix:PATH".
  const std::string& page() const { return page_; }

 private:
  GatewaySupervisor(const v1::FrontendConfig& config, ListeningSockets sockets, Clock& clock);
  void Run();
  void LiveOnce();
  bool Pause(absl::Duration pause);  // false if stopping

  const std::string binary_;
  std::vector<std::string> arguments_;
  std::string page_;
  ListeningSockets sockets_;
  Clock& clock_;
  absl::Mutex mu_;
  std::unique_ptr<ChildProcess> child_ ABSL_GUARDED_BY(mu_);  // changed only by thread_
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

// Checks before the start that the program can be run if web_address was set. Fails with InvalidArgument.
absl::Status CheckGatewayBinary(const v1::FrontendConfig& config);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GATEWAY_SUPERVISOR_H_
