// kinora-frontend as a process that a test starts, kills and starts again.
#ifndef KINORA_TESTS_SERVER_FRONTEND_FRONTEND_PROCESS_H_
#define KINORA_TESTS_SERVER_FRONTEND_FRONTEND_PROCESS_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/common/sha256.h"
#include "tests/server/frontend/frontend_fixture.h"
#include "tests/testing/fake_worker.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {

class FrontendProcess : public testing::Test {
 protected:
  ~FrontendProcess() override {
    if (pid_ > 0) End(SIGKILL);
  }

  void Spawn(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), KINORA_FRONTEND_BINARY);
    std::vector<char*> argv;
    argv.reserve(arguments.size() + 1);
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      freopen(directory_.File("log").c_str(), "a", stderr);
      freopen("/dev/null", "w", stdout);
      rlimit files{};
      getrlimit(RLIMIT_NOFILE, &files);
      if (open_files_ > 0) files.rlim_cur = open_files_;
      if (ignores_hangup_) signal(SIGHUP, SIG_IGN);
      if (umask_ >= 0) umask(static_cast<mode_t>(umask_));
      alarm(300);  // ends a process that hangs
      if (most_open_files_ > 0) files = {.rlim_cur = most_open_files_, .rlim_max = most_open_files_};
      setrlimit(RLIMIT_NOFILE, &files);
      const rlimit memory{.rlim_cur = address_space_, .rlim_max = address_space_};
      if (address_space_ > 0) setrlimit(RLIMIT_AS, &memory);
      execv(argv[0], argv.data());
      _exit(127);
    }
  }
  void Serve(const std::vector<std::string>& flags = {}) {
    std::vector<std::string> arguments = {"--state-directory",  directory_.File("state"),
                                          "--address",          absl::StrCat("unix:", directory_.File("api.sock")),
                                          "--http-address",     "",
                                          "--min-free-bytes=0", "--drain-grace-seconds=0"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    Spawn(std::move(arguments));
    grpc::ChannelArguments own_connection;  // not that of the process before, whose end may not have been noticed
    own_connection.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stub_ = v1::VideoGeneration::NewStub(grpc::CreateCustomChannel(absl::StrCat("unix:", directory_.File("api.sock")),
                                                                   grpc::InsecureChannelCredentials(), own_connection));
    v1::ListVideosResponse reply;
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    ASSERT_TRUE(stub_->ListVideos(&context, {}, &reply).ok()) << ReadFile(directory_.File("log"));
  }
  int End(int with_signal) {  // returns the exit status, or −signal
    if (with_signal != 0) kill(pid_, with_signal);
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  int Run(std::vector<std::string> arguments) {
    Spawn(std::move(arguments));
    return End(0);
  }
  std::string Create() {
    v1::CreateVideoRequest request;
    request.mutable_generation()->set_prompt("nobody shall log this");
    v1::Video video;
    grpc::ClientContext context;
    const grpc::Status status = stub_->CreateVideo(&context, request, &video);
    KINORA_CHECK(status.ok()) << status.error_message();
    return video.id();
  }
  v1::Video Get(const std::string& id) {
    v1::GetVideoRequest request;
    request.set_id(id);
    v1::Video video;
    grpc::ClientContext context;
    const grpc::Status status = stub_->GetVideo(&context, request, &video);
    KINORA_CHECK(status.ok()) << status.error_message();
    return video;
  }
  std::unique_ptr<FakeWorker> Join(const std::string& incarnation) {
    auto worker = std::make_unique<FakeWorker>(absl::StrCat("unix:", directory_.File("state/worker.sock")), TinyModel(),
                                               incarnation);
    v1::ListModelsResponse models;
    const auto stub = v1::Models::NewStub(
        grpc::CreateChannel(absl::StrCat("unix:", directory_.File("api.sock")), grpc::InsecureChannelCredentials()));
    while (models.models().empty()) {
      grpc::ClientContext context;
      KINORA_CHECK(stub->ListModels(&context, {}, &models).ok());
    }
    return worker;
  }

  // Waits for the condition, half a minute at most.
  template <typename Condition>
  static bool Eventually(Condition condition) {
    const absl::Time end = absl::Now() + absl::Seconds(30);
    while (!condition() && absl::Now() < end) std::this_thread::yield();
    return condition();
  }
  v1::Video AwaitEnd(const std::string& id) {
    Eventually([&] { return Get(id).has_end_time(); });
    return Get(id);
  }
  // The clip's bytes, or the error.
  std::string Download(const std::string& id, int64_t offset = 0) {
    v1::DownloadArtifactRequest request;
    request.set_video_id(id);
    request.set_offset(offset);
    grpc::ClientContext context;
    const auto reader = stub_->DownloadArtifact(&context, request);
    std::string bytes;
    v1::ArtifactChunk chunk;
    while (reader->Read(&chunk)) bytes += chunk.data();
    const grpc::Status status = reader->Finish();
    return status.ok() ? bytes : status.error_message();
  }
  grpc::Status Upload(const std::string& bytes, v1::Input* input) {
    grpc::ClientContext context;
    const auto stream = stub_->UploadInput(&context, input);
    v1::UploadInputRequest message;
    message.mutable_header()->set_sha256(Sha256Hex(bytes));
    message.mutable_header()->set_bytes(std::ssize(bytes));
    stream->Write(message);
    message.set_data(bytes);
    stream->Write(message);
    stream->WritesDone();
    return stream->Finish();
  }
  std::string LogText() const { return ReadFile(directory_.File("log")); }

  TemporaryDirectory directory_;
  pid_t pid_ = -1;
  rlim_t open_files_ = 0;                           // soft limit at the start; 0: this process's
  bool ignores_hangup_ = false;                     // as with nohup
  int umask_ = -1;                                  // -1: this process's
  rlim_t most_open_files_ = 0, address_space_ = 0;  // hard limits; 0: this process's
  std::unique_ptr<v1::VideoGeneration::Stub> stub_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_SERVER_FRONTEND_FRONTEND_PROCESS_H_
