// Downloads whose clients read nothing: their number, the resources they hold, and their end.
#include <gmock/gmock.h>

#include "server/net/grpc_status.h"
#include "tests/server/frontend/frontend_fixture.h"
#include "tests/testing/fake_clock.h"

namespace kinora {
namespace {

using testing::HasSubstr;

constexpr int64_t kBytes = 4 << 20;  // far more than a client's window

class DownloadTest : public FrontendTest {
 protected:
  struct Open {  // a download from which nothing is read
    std::unique_ptr<grpc::ClientContext> context;
    std::unique_ptr<grpc::ClientReader<v1::ArtifactChunk>> reader;

    absl::Status ReadToEnd() {
      for (v1::ArtifactChunk chunk; reader->Read(&chunk);) continue;
      return FromGrpcStatus(reader->Finish());
    }
  };

  std::string MakeClip() {
    auto worker = StartWorker();
    std::string id = Create(Request())->id();
    worker->Complete(worker->AwaitRun(), std::string(kBytes, 'm'));
    AwaitEnd(id);
    return id;
  }
  Open Begin(const std::string& id) {
    v1::DownloadArtifactRequest request;
    request.set_video_id(id);
    Open open{.context = Context()};
    open.reader = stub_->DownloadArtifact(open.context.get(), request);
    return open;
  }
  void AwaitOpen(int count) {
    while (Metrics()["kinora_downloads"] != count) std::this_thread::yield();
  }
};

// Each download used to hold a descriptor for as long as the client liked; 1,000 of them blocked the listener.
TEST_F(DownloadTest, OpenOnesAreBoundedInAllAndPerClientAndHoldNoFile) {
  config_.set_max_downloads(4);
  config_.set_max_downloads_per_client(3);
  WriteFile(directory_.File("tokens"), "first-0123456789\nsecond-0123456789\n");
  ASSERT_EQ(chmod(directory_.File("tokens").c_str(), 0600), 0);
  config_.set_token_file(directory_.File("tokens"));
  token_ = "first-0123456789";
  Start();
  const std::string id = MakeClip();
  std::vector<Open> open;
  open.reserve(3);
  for (int i = 0; i < 3; ++i) open.push_back(Begin(id));
  AwaitOpen(3);
  EXPECT_THAT(Download(id), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("max_downloads_per_client: 3")));
  token_ = "second-0123456789";
  open.push_back(Begin(id));
  AwaitOpen(4);
  EXPECT_THAT(Download(id), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("max_downloads: 4")));
  int files = 0;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    files += std::filesystem::read_symlink(entry.path(), gone).string().find("video.mp4") != std::string::npos;
  }
  EXPECT_LE(files, 1);  // the one being read at this moment
  for (Open& one : open) one.context->TryCancel();
  AwaitOpen(0);
  EXPECT_THAT(Download(id), IsOkAndHolds(testing::SizeIs(kBytes)));
}

TEST_F(DownloadTest, OneOfWhichNothingIsTakenEndsWithAborted) {
  FakeClock clock;
  clock_ = &clock;
  config_.set_download_idle_seconds(1);
  Start();
  const std::string id = MakeClip();
  Open idle = Begin(id);
  AwaitOpen(1);
  while (Metrics()["kinora_downloads"] != 0) clock.Advance(absl::Seconds(1));
  EXPECT_THAT(idle.ReadToEnd(), StatusIs(absl::StatusCode::kAborted, HasSubstr("download_idle_seconds")));
  EXPECT_THAT(Download(id), IsOkAndHolds(testing::SizeIs(kBytes)));
  frontend_.reset();  // before its clock
}

}  // namespace
}  // namespace kinora
