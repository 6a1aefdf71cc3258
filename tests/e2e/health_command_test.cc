// `kinora health` as used by a container's health check or a script that waits for a server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "tests/e2e/scripted_server.h"
#include "tests/testing/certificates.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kJobs[] = "--service=kinora.v1.VideoGeneration";

using HealthCommand = ScriptedServer;

// A frontend that starts no worker; the tests start those that join.
class HealthWithoutWorker : public testing::Test {
 protected:
  std::vector<std::string> Worker() const {
    return {KINORA_SCRIPTED_WORKER_BINARY, "--group=big", "--model=scripted",
            "--http-address=", absl::StrCat("--frontend=unix:", directory_.File("state/worker.sock"))};
  }
  TemporaryDirectory directory_;
  Server server_{directory_, {.binary = KINORA_SCRIPTED_WORKER_BINARY, .flags = {}}};
};

TEST_F(HealthCommand, OfAServerThatServesIsZero) {
  server_.Start();
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{}, {kJobs}, {"--service=kinora.group.0"}}) {
    std::vector<std::string> command = {"health"};
    command.insert(command.end(), more.begin(), more.end());
    const Result result = server_.Run(command);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.out, "SERVING\n");
    EXPECT_EQ(result.err, "");
  }
  EXPECT_EQ(server_.Json({"health"})["status"], "SERVING");
}

TEST_F(HealthCommand, OfNoServerOrANameThatItDoesNotHaveIsNot) {
  const Result nobody = server_.Run({"health"});
  EXPECT_EQ(nobody.status, kUnreachable);
  EXPECT_THAT(nobody.err, AllOf(HasSubstr("kinora: unreachable: "), Not(HasSubstr("waiting"))));
  server_.Start();
  const Result unknown = server_.Run({"health", "--service=kinora.v1.Pictures"});
  EXPECT_EQ(unknown.status, kRefused);
  EXPECT_THAT(unknown.err, HasSubstr("service: none of this name"));
  const Result operand = server_.Run({"health", "kinora.v1.VideoGeneration"});
  EXPECT_EQ(operand.status, kRefused);
  EXPECT_THAT(server_.Run({"health", "--wait=soon"}).err, HasSubstr("--wait soon: "));
}

TEST_F(HealthWithoutWorker, IsTheServersWithoutAGroupAndNotTheServices) {
  server_.Start(/*ready=*/false);
  EXPECT_EQ(server_.Run({"health"}).status, 0);
  const Result jobs = server_.Run({"health", kJobs});
  EXPECT_EQ(jobs.status, kUnreachable);
  EXPECT_EQ(jobs.out, "NOT_SERVING\n");
  EXPECT_THAT(jobs.err, HasSubstr("kinora: kinora.v1.VideoGeneration is not serving"));
  // Long enough for a first answer on a busy machine.
  const Result waited = server_.Run({"health", kJobs, "--wait=3s"});
  EXPECT_EQ(waited.status, kUnreachable);
  EXPECT_THAT(waited.err, AllOf(HasSubstr("waiting for the server at unix:"), HasSubstr("3s at most: ")));
}

TEST_F(HealthWithoutWorker, IsWaitedForFromBeforeTheServerToItsFirstGroup) {
  Process serving(server_.Client({"health", "--wait=1m"})), jobs(server_.Client({"health", kJobs, "--wait=1m"})),
      group(server_.Client({"health", "--service=kinora.group.big", "--wait=1m"}));
  for (Process* client : {&serving, &jobs, &group}) {
    EXPECT_NE(client->AwaitLine("waiting for the server at unix:"), "") << client->Err();
  }
  server_.Start(/*ready=*/false);
  EXPECT_EQ(serving.Wait(), 0) << serving.Err();
  EXPECT_NE(jobs.AwaitLine("is not serving"), "") << jobs.Err();
  EXPECT_NE(group.AwaitLine("none of this name"), "") << group.Err();  // yet
  Process worker(Worker());
  EXPECT_EQ(jobs.Wait(), 0) << jobs.Err();
  EXPECT_EQ(group.Wait(), 0) << group.Err();
}

TEST_F(HealthCommand, GoesOverTlsWithoutAToken) {
  const TestCertificate certificate = MakeCertificate({.name = "localhost", .address = "127.0.0.1"});
  for (const auto& [name, text] :
       {std::pair{"cert.pem", certificate.certificate}, std::pair{"key.pem", certificate.key},
        std::pair{"tokens", std::string("a token of the test's clients")}}) {
    WriteFile(directory_.File(name), text);
    ASSERT_EQ(chmod(directory_.File(name).c_str(), 0600), 0);
  }
  server_.Start(true, {"--address=127.0.0.1:0", "--tls-certificate-file=" + directory_.File("cert.pem"),
                       "--tls-key-file=" + directory_.File("key.pem"), "--token-file=" + directory_.File("tokens")});
  const std::string port = LogField(server_.frontend().AwaitLine("event=serving"), "port");
  const std::vector<std::string> command = {KINORA_CLIENT_BINARY, "health", "--server=127.0.0.1:" + port,
                                            "--tls-ca=" + directory_.File("cert.pem")};
  EXPECT_EQ(RunToEnd(command).out, "SERVING\n");
  EXPECT_EQ(RunToEnd({command[0], command[1], command[2], "--tls"}).status, kUnreachable);
  const Result plain = RunToEnd({command[0], command[1], command[2]});
  EXPECT_EQ(plain.status, kUnreachable);
  EXPECT_NE(plain.err.find("--tls"), std::string::npos) << plain.err;
  setenv("KINORA_TLS_CA", directory_.File("cert.pem").c_str(), 1);
  EXPECT_EQ(RunToEnd({command[0], command[1], command[2]}).out, "SERVING\n");
  setenv("KINORA_TLS_CA", "/nowhere.pem", 1);
  const Result nowhere = RunToEnd({command[0], command[1], command[2]});
  EXPECT_NE(nowhere.err.find("$KINORA_TLS_CA /nowhere.pem"), std::string::npos) << nowhere.err;
  unsetenv("KINORA_TLS_CA");
}

}  // namespace
}  // namespace kinora
