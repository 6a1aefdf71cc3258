#include "tests/e2e/server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

#include "absl/strings/str_cat.h"

namespace kinora {
namespace {

// Throws if the condition is false. The test fails, and destructors end its processes.
void Require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

}  // namespace

std::string LogField(const std::string& line, const std::string& name) {
  const size_t at = line.find(absl::StrCat(" ", name, "="));
  if (at == std::string::npos) return "";
  const size_t begin = at + name.size() + 2;
  return line.substr(begin, line.find(' ', begin) - begin);
}

std::string HttpGet(int port, const std::string& path) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  Require(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0, absl::StrCat("port ", port));
  const std::string request = absl::StrCat("GET ", path, " HTTP/1.0\r\nHost: localhost\r\n\r\n");
  Require(write(fd, request.data(), request.size()) == static_cast<ssize_t>(request.size()), "write");
  std::string reply;
  char buffer[4096];
  ssize_t n;
  while ((n = read(fd, buffer, sizeof(buffer))) > 0) reply.append(buffer, n);
  close(fd);
  return reply;
}

Server::Server(const TemporaryDirectory& directory, WorkerSetup worker)
    : directory_(directory), worker_(std::move(worker)) {}

void Server::Start(bool ready, const std::vector<std::string>& flags) {
  std::vector<std::string> arguments = {KINORA_FRONTEND_BINARY,
                                        absl::StrCat("--address=unix:", directory_.File("api.sock")),
                                        absl::StrCat("--state-directory=", directory_.File("state")),
                                        "--http-address=127.0.0.1:0",
                                        "--web-address=",
                                        "--min-free-bytes=0",
                                        absl::StrCat("--worker-binary=", worker_.binary),
                                        "--worker-http-address="};
  arguments.insert(arguments.end(), worker_.flags.begin(), worker_.flags.end());
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  frontend_.reset();  // the previous process, if any
  frontend_ = std::make_unique<Process>(host_ ? host_(arguments) : arguments);
  const std::string line = frontend_->AwaitLine("serving");
  Require(!line.empty(), frontend_->Err());
  http_port_ = LogField(line, "http_port");
  if (ready) AwaitReadyGroup();
}

void Server::AwaitReadyGroup() { Require(!frontend_->AwaitLine("group_ready").empty(), frontend_->Err()); }

std::vector<std::string> Server::Client(const std::vector<std::string>& arguments) const {
  std::vector<std::string> command = {KINORA_CLIENT_BINARY};
  command.insert(command.end(), arguments.begin(), arguments.end());
  if (arguments[0] == "admin") {
    command.push_back(absl::StrCat("--admin-server=unix:", directory_.File("state/admin.sock")));
  } else {
    command.push_back(absl::StrCat("--server=unix:", directory_.File("api.sock")));
  }
  return command;
}

nlohmann::json Server::Json(std::vector<std::string> arguments) const {
  arguments.push_back("--json");
  const Result result = Run(arguments);
  Require(result.status == 0, absl::StrCat("exit status ", result.status, ": ", result.out, result.err));
  return nlohmann::json::parse(result.out);
}

std::vector<std::string> Server::Generate(const std::string& prompt, const std::string& output,
                                          const std::vector<std::string>& more) const {
  std::vector<std::string> arguments = {"generate", prompt, "--seed=7", "--output", output};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return Client(arguments);
}

std::string Server::Create(const std::string& prompt, const std::vector<std::string>& more) const {
  std::vector<std::string> arguments = {"create", prompt, "--seed=7"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return Json(arguments)["id"];
}

pid_t Server::WorkerPid(int rank) const {
  const std::string address = Json({"admin", "list"})["ranks"][rank]["address"];  // "HOST pid N"
  return std::atoi(address.substr(address.rfind(' ') + 1).c_str());
}

std::string Server::MetricsPage() const { return HttpGet(std::atoi(http_port_.c_str()), "/metrics"); }

std::string Server::ReadyPage() const { return HttpGet(std::atoi(http_port_.c_str()), "/readyz"); }

}  // namespace kinora
