// kinora-frontend as an operator uses it: the binary, its signals, its exit status, kill -9.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "absl/strings/str_cat.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "tests/server/frontend/frontend_fixture.h"
#include "tests/server/frontend/frontend_process.h"
#include "tests/testing/certificates.h"
#include "tests/testing/fake_worker.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::HasSubstr;

TEST_F(FrontendProcess, KillNineLosesNoAcceptedJobAndTheNextProcessRunsThem) {
  Serve();
  auto worker = Join("one");
  std::vector<std::string> ids(10);
  for (std::string& id : ids) id = Create();
  EXPECT_EQ(worker->AwaitRun().video_id(), ids[0]);
  EXPECT_EQ(End(SIGKILL), -SIGKILL);
  worker.reset();

  Serve();
  for (const std::string& id : ids) EXPECT_EQ(Get(id).state(), v1::Video::QUEUED) << id;
  worker = Join("two");
  for (size_t i = 0; i < ids.size(); ++i) {
    const v1::Run run = worker->AwaitRun();
    EXPECT_EQ(run.video_id(), ids[i]);
    EXPECT_EQ(run.attempt(), i == 0 ? 2 : 1);
    worker->Complete(run, "bytes");
  }
  while (Get(ids.back()).state() != v1::Video::COMPLETED) std::this_thread::yield();
  for (const std::string& id : ids) EXPECT_EQ(Get(id).state(), v1::Video::COMPLETED) << id;
  EXPECT_THAT(ReadFile(directory_.File("log")), testing::Not(HasSubstr("nobody shall log this")));
}

TEST_F(FrontendProcess, KillNineForgetsNoDeletionOfARunningJob) {
  Serve();
  auto worker = Join("one");
  v1::DeleteVideoRequest request;
  request.set_id(Create());
  request.set_cancel(true);
  EXPECT_EQ(worker->AwaitRun().video_id(), request.id());
  google::protobuf::Empty nothing;
  grpc::ClientContext context;
  EXPECT_TRUE(stub_->DeleteVideo(&context, request, &nothing).ok());
  EXPECT_EQ(Get(request.id()).state(), v1::Video::RUNNING);
  EXPECT_EQ(End(SIGKILL), -SIGKILL);
  worker.reset();

  Serve();
  grpc::Status status;
  while (status.ok()) {
    grpc::ClientContext again;
    v1::GetVideoRequest get;
    v1::Video video;
    get.set_id(request.id());
    status = stub_->GetVideo(&again, get, &video);
  }
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(FrontendProcess, SigtermDrainsAndExitsWithZero) {
  Serve();
  auto worker = Join("one");
  const std::string id = Create();
  worker->AwaitRun();
  EXPECT_EQ(End(SIGTERM), 0);
  EXPECT_THAT(ReadFile(directory_.File("log")), HasSubstr("event=drained"));
  worker.reset();
  Serve();
  EXPECT_EQ(Get(id).state(), v1::Video::QUEUED);
  EXPECT_EQ(Get(id).attempt(), 1);
}

// As when its terminal is closed.
TEST_F(FrontendProcess, SighupDrainsToo) {
  Serve();
  EXPECT_EQ(End(SIGHUP), 0);
  EXPECT_THAT(ReadFile(directory_.File("log")), HasSubstr("event=drained"));
}

TEST_F(FrontendProcess, UnderNohupSighupDoesNothing) {
  ignores_hangup_ = true;
  Serve();
  const auto worker = Join("one");
  ASSERT_EQ(kill(pid_, SIGHUP), 0);
  Create();
  EXPECT_EQ(End(SIGTERM), 0);
  EXPECT_THAT(ReadFile(directory_.File("log")), HasSubstr("event=drained"));
}

// It raises its descriptor limit so that it can hold max_connections.
TEST_F(FrontendProcess, ManyConnectionsDoNotExhaustItsDescriptors) {
  open_files_ = 64;
  Serve();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = directory_.File("api.sock");
  ASSERT_LT(path.size(), sizeof(address.sun_path));
  path.copy(address.sun_path, path.size());
  std::vector<int> connections;
  for (int i = 0; i < 150; ++i) {
    connections.push_back(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(connect(connections.back(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0) << i;
  }
  const auto stub = v1::VideoGeneration::NewStub(
      grpc::CreateChannel(absl::StrCat("unix:", path), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  v1::ListVideosResponse reply;
  const grpc::Status status = stub->ListVideos(&context, {}, &reply);
  EXPECT_TRUE(status.ok()) << status.error_message();
  for (const int connection : connections) close(connection);
}

// Previously gRPC ended the process with an assertion.
TEST_F(FrontendProcess, TooLittleAddressSpaceIsSaidInASentence) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer takes terabytes of address space for itself";
#endif
  address_space_ = 400'000'000;
  EXPECT_EQ(Run({"--state-directory", directory_.File("state"), "--http-address=", "--address",
                 absl::StrCat("unix:", directory_.File("a"))}),
            1);
  EXPECT_THAT(ReadFile(directory_.File("log")), HasSubstr("kinora-frontend: ulimit -v"));
}

TEST_F(FrontendProcess, TooFewDescriptorsAreSaidInASentenceAndFewLowerTheConnections) {
  const std::vector<std::string> arguments = {"--state-directory", directory_.File("state"),
                                              "--http-address=", "--address",
                                              absl::StrCat("unix:", directory_.File("a"))};
  most_open_files_ = 100;
  EXPECT_EQ(Run(arguments), 1);
  EXPECT_THAT(ReadFile(directory_.File("log")), HasSubstr("kinora-frontend: ulimit -n: 100 open files are too few"));
  most_open_files_ = 300;
  Serve();
  EXPECT_THAT(ReadFile(directory_.File("log")), HasSubstr("event=max_connections_lowered"));
}

TEST_F(FrontendProcess, ChecksItsConfigurationWithoutStarting) {
  const std::string state = directory_.File("state");
  EXPECT_EQ(Run({"--check-config", "--state-directory", state}), 0);
  EXPECT_FALSE(std::filesystem::exists(state));
  EXPECT_EQ(Run({"--check-config", "--state-directory="}), 2);
  EXPECT_EQ(Run({"--state-directory="}), 2);
  EXPECT_EQ(Run({"--check-config", "--address", "0.0.0.0:1"}), 2);
  EXPECT_EQ(Run({"--check-config", "--token-file", directory_.File("none")}), 2);
  EXPECT_EQ(Run({"--check-config", "--worker-model=m", "--worker-binary=/nowhere"}), 2);
  EXPECT_EQ(Run({"--nonsense"}), 2);
  EXPECT_THAT(ReadFile(directory_.File("log")),
              testing::AllOf(HasSubstr("state_directory: must not be empty"), HasSubstr("address: "),
                             HasSubstr("token_file: "), HasSubstr("worker_binary: "), HasSubstr("--nonsense")));
}

TEST_F(FrontendProcess, UnderAnyUmaskWhatItMakesIsItsUsersAlone) {
  umask_ = 0;
  Serve();
  const auto worker = Join("one");
  Create();
  worker->AwaitRun();
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_.File("state"))) {
    names.insert(entry.path().filename().string());
    struct stat info;
    ASSERT_EQ(lstat(entry.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0077, 0u) << entry.path() << " " << std::oct << info.st_mode;
  }
  EXPECT_THAT(names, testing::IsSupersetOf({"admin.sock", "artifacts", "jobs.db", "jobs.db-wal", "worker.sock"}));
}

TEST_F(FrontendProcess, AStateDirectoryThatOthersMayUseIsRefusedWithAnotherWay) {
  const std::string state = directory_.File("state"), api = absl::StrCat("unix:", directory_.File("a"));
  ASSERT_EQ(mkdir(state.c_str(), 0700), 0);
  ASSERT_EQ(chmod(state.c_str(), 0775), 0);
  EXPECT_EQ(Run({"--check-config", "--state-directory", state}), 2);
  EXPECT_EQ(Run({"--state-directory", state, "--address", api}), 2);
  EXPECT_THAT(ReadFile(directory_.File("log")),
              testing::AllOf(HasSubstr("state_directory: "), HasSubstr("mode 0775"), HasSubstr(state + "/kinora")));
  EXPECT_TRUE(std::filesystem::is_empty(state));
  EXPECT_EQ(Run({"--check-config", "--state-directory", state + "/kinora"}), 0);
}

TEST_F(FrontendProcess, ChecksThatKeyAndCertificateBelongTogether) {
  const TestCertificate pair = MakeCertificate(), other = MakeCertificate();
  WriteFile(directory_.File("cert"), pair.certificate);
  WriteFile(directory_.File("key"), other.key);
  const std::vector<std::string> flags = {"--tls-certificate-file", directory_.File("cert"), "--tls-key-file",
                                          directory_.File("key"),   "--state-directory",     directory_.File("state")};
  std::vector<std::string> check = flags;
  check.push_back("--check-config");
  EXPECT_EQ(Run(check), 2);
  EXPECT_EQ(Run(flags), 2);
  EXPECT_THAT(ReadFile(directory_.File("log")),
              testing::AllOf(HasSubstr("tls.key_file: "), testing::Not(HasSubstr("cannot listen"))));
  WriteFile(directory_.File("key"), pair.key);
  EXPECT_EQ(Run(check), 0);
}

// Opening such a file for reading blocks, or reading never ends.
TEST_F(FrontendProcess, AFifoOrADeviceInPlaceOfAFileHoldsUpNothing) {
  ASSERT_EQ(mkfifo(directory_.File("fifo").c_str(), 0600), 0);
  const TestCertificate pair = MakeCertificate();
  WriteFile(directory_.File("cert"), pair.certificate);
  for (const std::string& path : {directory_.File("fifo"), std::string("/dev/zero")}) {
    EXPECT_EQ(Run({"--config", path}), 2);
    EXPECT_EQ(Run({"--token-file", path}), 2);
    EXPECT_EQ(Run({"--admin-token-file", path}), 2);
    EXPECT_EQ(Run({"--tls-certificate-file", path, "--tls-key-file", path}), 2);
    EXPECT_EQ(Run({"--tls-certificate-file", directory_.File("cert"), "--tls-key-file", path}), 2);
  }
  EXPECT_THAT(ReadFile(directory_.File("log")), HasSubstr("regular file"));
}

TEST_F(FrontendProcess, AStoreThatLostCommitsStartsOnlyWithTheFlagThatItsMessageNames) {
  Serve();
  const auto worker = Join("one");
  Create();
  EXPECT_EQ(End(SIGKILL), -SIGKILL);
  std::filesystem::remove(directory_.File("state/jobs.db-wal"));
  EXPECT_EQ(Run({"--state-directory", directory_.File("state"), "--http-address=", "--address",
                 absl::StrCat("unix:", directory_.File("api.sock"))}),
            1);
  const std::string log = ReadFile(directory_.File("log"));
  const std::string flag = "--accept-lost-commits=";
  ASSERT_THAT(log, HasSubstr(flag));
  const size_t at = log.find(flag);
  Serve({log.substr(at, log.find_first_not_of("0123456789", at + flag.size()) - at)});
  EXPECT_EQ(End(SIGTERM), 0);
  Serve();
}

TEST_F(FrontendProcess, ADamagedJobFileIsNamedAndTheExitStatusIsOne) {
  ASSERT_EQ(mkdir(directory_.File("state").c_str(), 0700), 0);
  WriteFile(directory_.File("state/jobs.db"), std::string(8192, 'x'));
  EXPECT_EQ(
      Run({"--state-directory", directory_.File("state"), "--address", absl::StrCat("unix:", directory_.File("a"))}),
      1);
  EXPECT_THAT(ReadFile(directory_.File("log")), HasSubstr("jobs.db"));
}

}  // namespace
}  // namespace kinora
