// Answers to clients while the state directory of a running frontend is broken: every method, every kind of damage. No
// answer names a folder of the server or blames the caller, and the process continues to serve.
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>

#include "server/common/sha256.h"
#include "server/net/grpc_status.h"
#include "tests/server/frontend/frontend_fixture.h"
#include "tests/testing/raw_call.h"

namespace kinora {
namespace {

namespace fs = std::filesystem;

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr size_t kArtifactBytes = 700'000;
constexpr char kInput[] = "\x89PNG\r\n\x1a\nand so on";

class BrokenState : public FrontendTest {
 protected:
  BrokenState() { config_.set_heartbeat_interval_seconds(1000); }

  // Starts a frontend with one completed and one waiting job.
  void StartWithJobs() {
    Start();
    // Connects while the path still exists.
    admin_ = grpc::CreateChannel(absl::StrCat("unix:", directory_.File("state/admin.sock")),
                                 grpc::InsecureChannelCredentials());
    RawCall(admin_, "/kinora.v1.Admin/ListWorkerGroups", "").IgnoreError();
    worker_ = StartWorker();
    done_ = Create(Request())->id();
    worker_->Complete(worker_->AwaitRun(), std::string(kArtifactBytes, 'm'));
    AwaitEnd(done_);
    Create(Request("blocker")).IgnoreError();
    worker_->AwaitRun();
    waiting_ = Create(Request())->id();
    ASSERT_THAT(Upload(kInput), IsOk());
    artifact_ = directory_.File("state/artifacts/" + done_ + "/1/video.mp4");
    ASSERT_TRUE(fs::exists(artifact_));
  }

  // Calls every method once and returns name -> status. Delete is last because it removes the job.
  std::vector<std::pair<std::string, absl::Status>> CallAll() {
    std::vector<std::pair<std::string, absl::Status>> out;
    const auto unary = [&](const char* name, const google::protobuf::Message& request) {
      out.emplace_back(name,
                       RawCall(channel_, absl::StrCat("/kinora.v1.", name), request.SerializeAsString()).status());
    };
    v1::GetVideoRequest get;
    get.set_id(done_);
    v1::CancelVideoRequest cancel;
    cancel.set_id(waiting_);
    v1::DeleteVideoRequest remove;
    remove.set_id(done_);
    unary("VideoGeneration/CreateVideo", Request());
    out.emplace_back("GenerateVideo", Generate());
    out.emplace_back("WatchVideo", Watch(done_));
    unary("VideoGeneration/GetVideo", get);
    unary("VideoGeneration/ListVideos", v1::ListVideosRequest());
    unary("VideoGeneration/CancelVideo", cancel);
    out.emplace_back("EstimateVideo", Estimate());
    out.emplace_back("DownloadArtifact", Download(done_).status());
    out.emplace_back("GetInput", GetInput(Sha256Hex(kInput)).status());
    out.emplace_back("UploadInput, known", Upload(kInput).status());
    out.emplace_back("UploadInput", Upload(absl::StrCat(kInput, "another")).status());
    unary("Models/ListModels", google::protobuf::Empty());
    for (const char* name : {"ListWorkerGroups", "DrainWorkerGroup", "RestartWorkerGroup"}) {
      v1::WorkerGroupRequest group;
      if (std::string_view(name) != "ListWorkerGroups") group.set_id("0");
      out.emplace_back(name,
                       RawCall(admin_, absl::StrCat("/kinora.v1.Admin/", name), group.SerializeAsString()).status());
    }
    unary("VideoGeneration/DeleteVideo", remove);
    return out;
  }

  absl::Status Generate() {
    const auto context = Context();
    const auto stream = stub_->GenerateVideo(context.get(), Request());
    v1::VideoEvent event;
    if (stream->Read(&event)) context->TryCancel();  // the job was created
    const grpc::Status status = stream->Finish();
    return status.error_code() == grpc::StatusCode::CANCELLED ? absl::OkStatus() : FromGrpcStatus(status);
  }

  absl::Status Estimate() {  // no worker answers, so it ends at its deadline
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
    v1::Estimate estimate;
    const auto status = FromGrpcStatus(stub_->EstimateVideo(&context, Request(), &estimate));
    return absl::IsDeadlineExceeded(status) ? absl::OkStatus() : status;
  }

  absl::Status Watch(const std::string& id) {
    v1::WatchVideoRequest request;
    request.set_id(id);
    const auto context = Context();
    const auto stream = stub_->WatchVideo(context.get(), request);
    for (v1::VideoEvent event; stream->Read(&event);) {
    }
    return FromGrpcStatus(stream->Finish());
  }

  void ExpectNothingTold() {
    for (const auto& [method, status] : CallAll()) {
      SCOPED_TRACE(absl::StrCat(method, ": ", status.ToString()));
      EXPECT_THAT(std::string(status.message()), Not(testing::AnyOf(HasSubstr(directory_.path()), HasSubstr("/tmp"),
                                                                    HasSubstr("artifacts/"), HasSubstr("state/"))));
      status.ForEachPayload([&](absl::string_view, const absl::Cord& payload) {
        EXPECT_THAT(std::string(payload), Not(HasSubstr(directory_.path())));
      });
      using Code = absl::StatusCode;
      if (method == "GetInput" && status.code() == Code::kNotFound) continue;  // its file is gone: upload it again
      EXPECT_THAT(status.code(), testing::AnyOf(Code::kOk, Code::kInternal, Code::kResourceExhausted, Code::kDataLoss,
                                                Code::kUnavailable));
    }
    EXPECT_EQ(HttpGet("/livez"), "ok\n");
  }

  std::shared_ptr<grpc::Channel> admin_;
  std::unique_ptr<FakeWorker> worker_;
  std::string done_, waiting_, artifact_;
};

TEST_F(BrokenState, AnArtifactThatIsNotWhatItsRecordSaysIsDataLoss) {
  StartWithJobs();
  for (const size_t bytes : {size_t{0}, size_t{100}, kArtifactBytes - 1, kArtifactBytes + 1}) {
    fs::resize_file(artifact_, bytes);
    EXPECT_THAT(Download(done_), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(absl::StrCat(bytes, " bytes"))));
    EXPECT_THAT(Download(done_, kArtifactBytes), StatusIs(absl::StatusCode::kDataLoss));
  }
}

TEST_F(BrokenState, AnErrorWithAFileNamesTheFileAndTheLogItsFolder) {
  StartWithJobs();
  fs::remove(artifact_);
  testing::internal::CaptureStderr();
  EXPECT_THAT(Download(done_),
              StatusIs(absl::StatusCode::kInternal, "video.mp4: cannot open: No such file or directory"));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("event=file_error method=/kinora.v1.VideoGeneration/DownloadArtifact"),
                    HasSubstr(artifact_ + ": cannot open")));
}

struct Files {
  std::string state, artifacts, job, artifact, store;
};

struct Way {
  const char* name;
  void (*break_it)(const Files& files);
};

void Replace(const std::string& path, const std::string& text) {
  fs::remove_all(path);
  WriteFile(path, text);
}

const Way kWays[] = {
    {"NoArtifactsFolder", [](const Files& files) { fs::remove_all(files.artifacts); }},
    {"AFileForTheArtifactsFolder", [](const Files& files) { Replace(files.artifacts, "x"); }},
    {"AFileForTheJobsFolder", [](const Files& files) { Replace(files.job, "x"); }},
    {"NoArtifact", [](const Files& files) { fs::remove(files.artifact); }},
    {"AnArtifactThatIsShort", [](const Files& files) { fs::resize_file(files.artifact, 1); }},
    {"AFolderForTheArtifact",
     [](const Files& files) {
       fs::remove(files.artifact);
       fs::create_directory(files.artifact);
     }},
    {"ALinkForTheArtifact",
     [](const Files& files) {
       fs::remove(files.artifact);
       fs::create_symlink("/etc/hostname", files.artifact);
     }},
    {"NoJobStore", [](const Files& files) { fs::remove(files.store); }},
    {"AnotherTextForTheJobStore",
     [](const Files& files) {
       for (const std::string& file : {files.store, files.store + "-wal"}) {
         const auto bytes = fs::file_size(file);
         std::fstream(file, std::ios::in | std::ios::out) << std::string(bytes, 'x');
       }
     }},
    {"NoTable",
     [](const Files& files) {
       sqlite3* handle = nullptr;
       ASSERT_EQ(sqlite3_open(files.store.c_str(), &handle), SQLITE_OK);
       ASSERT_EQ(sqlite3_exec(handle, "DROP TABLE jobs", nullptr, nullptr, nullptr), SQLITE_OK);
       sqlite3_close(handle);
     }},
    {"NoByteMayBeWritten",
     [](const Files&) {
       signal(SIGXFSZ, SIG_IGN);
       const rlimit none = {.rlim_cur = 0, .rlim_max = RLIM_INFINITY};
       ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
     }},
    {"NoStateDirectory", [](const Files& files) { fs::rename(files.state, files.state + "-aside"); }},
};

class BrokenIn : public BrokenState, public testing::WithParamInterface<Way> {};

TEST_P(BrokenIn, NoAnswerNamesAFolderOrBlamesTheCaller) {
  StartWithJobs();
  const std::string state = directory_.File("state"), artifacts = state + "/artifacts";
  GetParam().break_it({state, artifacts, artifacts + "/" + done_, artifact_, state + "/jobs.db"});
  ExpectNothingTold();
  const rlimit any = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
  setrlimit(RLIMIT_FSIZE, &any);
}

INSTANTIATE_TEST_SUITE_P(Ways, BrokenIn, testing::ValuesIn(kWays), [](const auto& way) { return way.param.name; });

}  // namespace
}  // namespace kinora
