// A frontend with one supervised worker and a state directory of the test, and the client `kinora`. All three are the
// binaries that users run.
#ifndef KINORA_TESTS_E2E_SERVER_H_
#define KINORA_TESTS_E2E_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/e2e/process.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {

std::string LogField(const std::string& line, const std::string& name);  // VALUE of "… name=VALUE …", or ""
std::string HttpGet(int port, const std::string& path);                  // whole reply of 127.0.0.1

struct WorkerSetup {
  std::string binary;              // kinora-worker, or the scripted worker
  std::vector<std::string> flags;  // frontend flags for the worker: --worker-model=…
};

class Server {
 public:
  Server(const TemporaryDirectory& directory, WorkerSetup worker);

  // Sets a wrapper that makes the frontend's command run on another host. Must be called before Start.
  void SetHost(std::function<std::vector<std::string>(const std::vector<std::string>&)> on) { host_ = std::move(on); }
  // Starts the frontend and waits until it serves; with `ready` also until its worker group is ready.
  void Start(bool ready = true, const std::vector<std::string>& flags = {});
  void AwaitReadyGroup();
  // Returns the complete command: kinora COMMAND… with the server's address.
  std::vector<std::string> Client(const std::vector<std::string>& arguments) const;
  Result Run(const std::vector<std::string>& arguments) const { return RunToEnd(Client(arguments)); }
  nlohmann::json Json(std::vector<std::string> arguments) const;  // output of a successful --json command
  std::vector<std::string> Generate(const std::string& prompt, const std::string& output,
                                    const std::vector<std::string>& more = {}) const;
  std::string Create(const std::string& prompt, const std::vector<std::string>& more = {}) const;  // returns the id

  pid_t WorkerPid(int rank = 0) const;  // of the current group
  std::string MetricsPage() const;
  std::string ReadyPage() const;  // the whole reply

  Process& frontend() { return *frontend_; }
  std::unique_ptr<Process> TakeFrontend() { return std::move(frontend_); }

 private:
  const TemporaryDirectory& directory_;
  const WorkerSetup worker_;
  std::function<std::vector<std::string>(const std::vector<std::string>&)> host_;  // empty: this host
  std::unique_ptr<Process> frontend_;
  std::string http_port_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_E2E_SERVER_H_
