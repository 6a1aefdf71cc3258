// The gateway that a frontend starts beside its worker: where it serves, when it comes back and when it ends.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/file_descriptor.h"
#include "tests/e2e/scripted_server.h"

namespace kinora {
namespace {

using testing::HasSubstr;

sockaddr_in Loopback(const char* host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, host, &address.sin_addr);
  return address;
}

// A listening socket on a port of 127.0.0.1, 0: any; unless another process has it.
class TakenPort {
 public:
  explicit TakenPort(int port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = Loopback("127.0.0.1", port);
    auto* name = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof(address);
    const absl::Time limit = absl::Now() + absl::Seconds(20);  // `kinora doctor` tries it, which takes less
    while (bind(socket_.get(), name, size) != 0 && absl::Now() < limit) sched_yield();
    (void)listen(socket_.get(), 1);
    getsockname(socket_.get(), name, &size);
    port_ = port != 0 ? port : ntohs(address.sin_port);
  }
  int port() const { return port_; }

 private:
  FileDescriptor socket_;
  int port_ = 0;
};

class WebAddress : public ScriptedServer {
 protected:
  void Start(const std::vector<std::string>& more = {}) {
    std::vector<std::string> flags = {"--web-address=127.0.0.1:0"};
    flags.insert(flags.end(), more.begin(), more.end());
    server_.Start(/*ready=*/true, flags);
    const std::string page = LogField(server_.frontend().AwaitLine("process=frontend event=serving"), "page");
    EXPECT_THAT(page, testing::MatchesRegex("http://127.0.0.1:[0-9]+/"));
    port_ = std::atoi(page.substr(page.rfind(':') + 1).c_str());
  }
  pid_t Gateway() { return std::atoi(LogField(server_.frontend().AwaitLine("event=gateway_started"), "pid").c_str()); }
  bool AwaitNobodyListens() const {  // false: after a minute someone does
    const absl::Time limit = absl::Now() + absl::Minutes(1);
    while (absl::Now() < limit) {
      try {
        HttpGet(port_, "/livez");
      } catch (const std::runtime_error&) {
        return true;
      }
    }
    return false;
  }
  // A request from another address of this machine. Returns the whole reply.
  std::string GetFrom(const char* source, const std::string& path) const {
    const FileDescriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in from = Loopback(source, 0), to = Loopback("127.0.0.1", port_);
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&from), sizeof(from)), 0);
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    const std::string request = absl::StrCat("GET ", path, " HTTP/1.0\r\nHost: localhost\r\n\r\n");
    EXPECT_EQ(write(fd.get(), request.data(), request.size()), static_cast<ssize_t>(request.size()));
    std::string reply;
    char buffer[4096];
    for (ssize_t n; (n = read(fd.get(), buffer, sizeof(buffer))) > 0;) reply.append(buffer, n);
    return reply;
  }
  // A frontend with a worker and the default of --web-address, unless `more` has another.
  std::vector<std::string> Command(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> command = {KINORA_FRONTEND_BINARY,
                                        absl::StrCat("--address=unix:", directory_.File("api.sock")),
                                        absl::StrCat("--state-directory=", directory_.File("state")),
                                        "--http-address=",
                                        absl::StrCat("--worker-binary=", KINORA_SCRIPTED_WORKER_BINARY),
                                        "--worker-http-address=",
                                        "--worker-model=scripted"};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }

  int port_ = 0;
};

TEST_F(WebAddress, ServesHttpBesideTheWorker) {
  Start();
  const std::string reply = HttpGet(port_, "/v1/models");
  EXPECT_THAT(reply, HasSubstr(" 200 OK\r\n"));
  EXPECT_THAT(reply, HasSubstr("\"scripted\""));
}

TEST_F(WebAddress, ADefaultPortThatIsTakenIsAWarning) {
  const TakenPort taken(8472);
  Process frontend(Command());
  EXPECT_THAT(frontend.AwaitLine("event=no_web_page"), HasSubstr("web_address: 127.0.0.1:8472 is in use"));
  EXPECT_NE(frontend.AwaitLine("event=group_ready"), "") << frontend.Err();
  frontend.Signal(SIGTERM);
  EXPECT_EQ(frontend.Wait(), 0);
  EXPECT_THAT(frontend.Err(), testing::Not(HasSubstr("gateway_started")));
}

TEST_F(WebAddress, AnAddressThatWasSetAndIsTakenEndsTheStart) {
  const TakenPort taken(0);
  const Result result = RunToEnd(Command({absl::StrCat("--web-address=127.0.0.1:", taken.port())}));
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr(absl::StrCat("kinora-frontend: web_address: 127.0.0.1:", taken.port(),
                                                 " is in use by another process")));
  const Result foreign = RunToEnd(Command({"--web-address=0.0.0.0:0"}));
  EXPECT_EQ(foreign.status, 2);
  EXPECT_THAT(foreign.err, HasSubstr("web_address: \"0.0.0.0:0\" is 0.0.0.0, which is not loopback"));
}

TEST_F(WebAddress, AGatewayThatIsKilledComesBackAndItsClientsWait) {
  Start();
  EXPECT_THAT(HttpGet(port_, "/livez"), HasSubstr(" 200 OK\r\n"));
  const pid_t first = Gateway();
  ASSERT_EQ(kill(first, SIGKILL), 0);
  EXPECT_NE(server_.frontend().AwaitLine("event=gateway_ended"), "");
  EXPECT_THAT(HttpGet(port_, "/livez"), HasSubstr(" 200 OK\r\n"));  // from the next process
  EXPECT_NE(kill(first, 0), 0);
  EXPECT_THAT(server_.frontend().AwaitLine("event=gateway_ended"), HasSubstr("killed by signal 9"));
}

TEST_F(WebAddress, TheGatewayEndsWithAFrontendThatIsKilled) {
  Start();
  EXPECT_THAT(HttpGet(port_, "/livez"), HasSubstr(" 200 OK\r\n"));
  server_.frontend().Signal(SIGKILL);
  EXPECT_TRUE(server_.frontend().AwaitEndOfOutput());  // a process that exits closes the log before its sockets
  EXPECT_TRUE(AwaitNobodyListens()) << "someone still listens";
}

TEST_F(WebAddress, TheGatewayEndsWhileTheFrontendDrains) {
  Start();
  const std::string id = server_.Create(gate_.Prompt());
  std::string events;
  std::thread watcher([&] { events = HttpGet(port_, absl::StrCat("/v1/videos/", id, "/events")); });
  while (HttpGet(port_, "/metrics").find("\nkinora_http_event_streams 1\n") == std::string::npos) sched_yield();
  gate_.Open();
  server_.frontend().Signal(SIGTERM);
  EXPECT_EQ(server_.frontend().Wait(), 0);
  const std::string log = server_.frontend().Err();
  const size_t draining = log.find("process=frontend event=draining");
  const size_t ended = log.find("event=gateway_ended"), drained = log.find("process=frontend event=drained");
  EXPECT_LT(draining, ended) << log;
  EXPECT_LT(ended, drained) << log;
  EXPECT_THAT(log, HasSubstr("event=gateway_ended how=\"exit status 0\""));
  watcher.join();
  EXPECT_THAT(events, HasSubstr("completed"));  // it saw the job's end, for which the frontend waited
}

TEST_F(WebAddress, TheFrontendLogsTheClientBehindTheGateway) {
  const std::string tokens = directory_.File("tokens");
  WriteFile(tokens, "0123456789abcdef\n");
  ASSERT_EQ(chmod(tokens.c_str(), 0600), 0);
  Start({absl::StrCat("--token-file=", tokens)});
  EXPECT_THAT(GetFrom("127.0.0.3", "/v1/models"), HasSubstr(" 401 "));
  EXPECT_THAT(server_.frontend().AwaitLine("event=call_refused"), HasSubstr("peer=ipv4:127.0.0.3 "));
}

}  // namespace
}  // namespace kinora
