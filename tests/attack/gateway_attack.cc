#include "tests/attack/gateway_attack.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "tests/attack/sockets.h"
#include "tests/e2e/server.h"

namespace kinora {
namespace {

constexpr absl::Duration kLongestAnswer = absl::Seconds(10);

// The body of a reply with status 200.
absl::StatusOr<std::string> BodyOf(const std::string& reply) {
  const size_t end = reply.find("\r\n\r\n");
  if (absl::StartsWith(reply, "HTTP/1.1 200") && end != std::string::npos) return reply.substr(end + 4);
  return absl::UnavailableError(reply.empty() ? "no reply" : reply);
}

// One reply with its body.
std::string ReadReply(const FileDescriptor& socket, absl::Duration patience) {
  const absl::Time end = Clock::Steady().Now() + patience;
  std::string received;
  while (true) {
    const size_t head = received.find("\r\n\r\n");
    const size_t field = received.find("Content-Length: ");
    if (head != std::string::npos && field < head &&
        received.size() >= head + 4 + std::strtoul(received.c_str() + field + 16, nullptr, 10)) {
      return received;
    }
    const absl::Duration left = end - Clock::Steady().Now();
    pollfd readable{.fd = socket.get(), .events = POLLIN, .revents = 0};
    if (left <= absl::ZeroDuration() || poll(&readable, 1, static_cast<int>(absl::ToInt64Milliseconds(left))) <= 0) {
      return "";
    }
    char bytes[65536];
    const ssize_t count = recv(socket.get(), bytes, sizeof(bytes), 0);
    if (count <= 0) return "";
    received.append(bytes, static_cast<size_t>(count));
  }
}

}  // namespace

GatewayTarget::GatewayTarget(const std::vector<std::string>& flags) : frontend_({}, 0, false) {
  std::vector<std::string> arguments = {KINORA_GATEWAY_BINARY, "--address=127.0.0.1:0",
                                        absl::StrCat("--frontend=", frontend_.address()),
                                        absl::StrCat("--scratch-directory=", directory_.path())};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  gateway_ = std::make_unique<Process>(arguments);
  const std::string line = gateway_->AwaitLine("event=serving");
  KINORA_CHECK(!line.empty()) << gateway_->Err();
  port_ = LogField(line, "port");
}

std::string GatewayTarget::Head(std::string_view method, std::string_view path) const {
  return absl::StrCat(std::string(method), " ", std::string(path),
                      " HTTP/1.1\r\nHost: localhost\r\nAuthorization: ", authorization(), "\r\n");
}

std::string GatewayTarget::Ask(const std::string& request) const {
  const FileDescriptor socket = ConnectTo(address(), kHonestClient);
  if (!socket.ok() || !SendAll(socket, request)) return "";
  return ReadReply(socket, kLongestAnswer);
}

absl::StatusOr<std::string> GatewayTarget::Create(const std::string& prompt) const {
  const std::string body = nlohmann::json({{"prompt", prompt}}).dump();
  KINORA_ASSIGN_OR_RETURN(
      const std::string made,
      BodyOf(Ask(absl::StrCat(Head("POST", "/v1/videos"),
                              "Content-Type: application/json\r\nContent-Length: ", body.size(), "\r\n\r\n", body))));
  return nlohmann::json::parse(made)["id"].get<std::string>();
}

absl::Status GatewayTarget::Serves() const {
  KINORA_ASSIGN_OR_RETURN(const std::string id, Create("steps=1"));
  const absl::Time end = Clock::Steady().Now() + kLongestAnswer;
  for (std::string status; status != "completed"; Pause(absl::Milliseconds(5))) {
    KINORA_ASSIGN_OR_RETURN(const std::string body,
                            BodyOf(Ask(absl::StrCat(Head("GET", absl::StrCat("/v1/videos/", id)), "\r\n"))));
    status = nlohmann::json::parse(body)["status"].get<std::string>();
    if (status == "failed" || Clock::Steady().Now() > end) {
      return absl::InternalError(absl::StrCat("job ", id, " is ", status));
    }
  }
  KINORA_RETURN_IF_ERROR(BodyOf(Ask("GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")).status());
  return IsLive();
}

absl::Status GatewayTarget::IsLive() const {
  return BodyOf(Ask("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")).status();
}

double GatewayTarget::Metric(const std::string& name) const {
  const std::string page = Ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const size_t at = page.find(absl::StrCat("\n", name, " "));
  KINORA_CHECK(at != std::string::npos) << name << page;
  return std::strtod(page.c_str() + at + name.size() + 2, nullptr);
}

int RunGatewayAttack(const GatewayAttackPlan& plan) {
  PrepareAttacker();
  const GatewayTarget target(plan.flags);
  return Measure({.name = plan.name,
                  .pid = target.pid(),
                  .most_growth_bytes = plan.most_growth_bytes,
                  .attack = [&](Effort& effort) { return plan.attack(target, effort); },
                  .serves = [&] { return target.Serves(); },
                  .log = [&] { return target.Log(); }});
}

bool SendAll(const FileDescriptor& socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

std::string ReadAll(const FileDescriptor& socket, absl::Duration patience, bool* closed) {
  const absl::Time end = Clock::Steady().Now() + patience;
  std::string received;
  while (true) {
    const absl::Duration left = std::max(absl::ZeroDuration(), end - Clock::Steady().Now());
    pollfd readable{.fd = socket.get(), .events = POLLIN, .revents = 0};
    if (poll(&readable, 1, static_cast<int>(absl::ToInt64Milliseconds(left))) <= 0) return received;
    char bytes[65536];
    const ssize_t count = recv(socket.get(), bytes, sizeof(bytes), 0);
    if (count <= 0) {
      if (closed != nullptr) *closed = true;
      return received;
    }
    received.append(bytes, static_cast<size_t>(count));
  }
}

void Pause(absl::Duration duration) {
  absl::Mutex mu;
  absl::MutexLock lock(&mu);
  bool never = false;
  Clock::Steady().AwaitUntil(mu, absl::Condition(&never), Clock::Steady().Now() + duration);
}

}  // namespace kinora
