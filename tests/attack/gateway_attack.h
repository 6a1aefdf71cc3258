// Shared by the attacks on kinora-gateway: a gateway in front of a frontend that requires a token, and raw HTTP.
#ifndef KINORA_TESTS_ATTACK_GATEWAY_ATTACK_H_
#define KINORA_TESTS_ATTACK_GATEWAY_ATTACK_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/base/file_descriptor.h"
#include "tests/attack/attack.h"
#include "tests/e2e/process.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {

// The client that must be served during an attack has an address of its own, since limits are per client.
inline constexpr char kHonestClient[] = "127.0.0.2";

class GatewayTarget {
 public:
  // flags: of the gateway.
  explicit GatewayTarget(const std::vector<std::string>& flags);

  std::string address() const { return "127.0.0.1:" + port_; }
  std::string frontend() const { return frontend_.address(); }
  int pid() const { return static_cast<int>(gateway_->pid()); }
  std::string authorization() const { return frontend_.authorization(); }
  std::string scratch() const { return directory_.path(); }  // the folder of uploads
  std::string Log() const { return gateway_->Err(); }

  // "METHOD PATH HTTP/1.1", Host and Authorization, each line ended; without the empty line.
  std::string Head(std::string_view method, std::string_view path) const;
  // Sends the bytes as the honest client and returns the reply, which must have a Content-Length; "" if none comes
  // within ten seconds.
  std::string Ask(const std::string& request) const;
  // Creates a job over HTTP and returns its ID.
  absl::StatusOr<std::string> Create(const std::string& prompt) const;
  // Checks that a job is created and COMPLETED over HTTP, and that /livez and /readyz report OK.
  absl::Status Serves() const;
  absl::Status IsLive() const;
  // The value of a metric without labels.
  double Metric(const std::string& name) const;

 private:
  const Target frontend_;
  TemporaryDirectory directory_;
  std::unique_ptr<Process> gateway_;
  std::string port_;
};

struct GatewayAttackPlan {
  std::string name;
  std::vector<std::string> flags;  // of the gateway
  int64_t most_growth_bytes;       // limit for the gateway's resident memory during the attack
  std::function<absl::Status(const GatewayTarget&, Effort&)> attack;  // as AttackPlan::attack
};
int RunGatewayAttack(const GatewayAttackPlan& plan);  // as RunAttack

// Sends all bytes, however slowly they are taken; false: the server has closed the connection.
bool SendAll(const FileDescriptor& socket, std::string_view bytes);
// Reads until the server closes the connection, or for `patience`. closed: whether it has.
std::string ReadAll(const FileDescriptor& socket, absl::Duration patience, bool* closed = nullptr);
void Pause(absl::Duration duration);

}  // namespace kinora

#endif  // KINORA_TESTS_ATTACK_GATEWAY_ATTACK_H_
