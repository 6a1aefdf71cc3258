// DeleteVideo with `cancel`, in a complete frontend with scripted workers.
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "server/net/grpc_status.h"
#include "tests/server/frontend/frontend_fixture.h"

namespace kinora {
namespace {

using testing::HasSubstr;

class DeleteTest : public FrontendTest {
 protected:
  absl::Status Delete(const std::string& id, bool cancel) {
    v1::DeleteVideoRequest request;
    request.set_id(id);
    request.set_cancel(cancel);
    google::protobuf::Empty nothing;
    return FromGrpcStatus(stub_->DeleteVideo(Context().get(), request, &nothing));
  }
  bool HasArtifacts(const std::string& id) { return std::filesystem::exists(directory_.File("state/artifacts/" + id)); }
  void AwaitGone(const std::string& id) {
    while (Get(id).ok() || HasArtifacts(id)) std::this_thread::yield();
    EXPECT_THAT(Get(id), StatusIs(absl::StatusCode::kNotFound));
  }
};

TEST_F(DeleteTest, ARunningJobIsCancelledAndGoneWhenItHasEnded) {
  Start();
  const auto worker = StartWorker();
  const std::string id = Create(Request())->id();
  const v1::Run run = worker->AwaitRun();
  EXPECT_THAT(Delete(id, /*cancel=*/false), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("cancel it")));
  EXPECT_THAT(Delete(id, /*cancel=*/true), IsOk());
  EXPECT_EQ(worker->Next().cancel().video_id(), id);
  EXPECT_EQ(Get(id)->state(), v1::Video::RUNNING);
  EXPECT_THAT(Delete(id, /*cancel=*/true), IsOk());  // again
  v1::WatchVideoRequest request;
  request.set_id(id);
  const auto context = Context();
  const auto watch = stub_->WatchVideo(context.get(), request);
  v1::VideoEvent event;
  ASSERT_TRUE(watch->Read(&event));  // the watch stands before the job ends
  worker->End(run, absl::CancelledError("at step 2"));
  while (watch->Read(&event)) {
  }
  EXPECT_THAT(FromGrpcStatus(watch->Finish()), IsOk());
  EXPECT_EQ(event.terminal().state(), v1::Video::CANCELLED);
  AwaitGone(id);
}

TEST_F(DeleteTest, AJobThatCompletesBeforeItsCancelLeavesNoArtifact) {
  Start();
  const auto worker = StartWorker();
  const std::string id = Create(Request())->id();
  const v1::Run run = worker->AwaitRun();
  EXPECT_THAT(Delete(id, /*cancel=*/true), IsOk());
  worker->Complete(run, "bytes");
  AwaitGone(id);
}

TEST_F(DeleteTest, AQueuedJobIsGoneAndNeverRuns) {
  Start();
  const auto worker = StartWorker();
  const std::string running = Create(Request())->id(), queued = Create(Request())->id(), last = Create(Request())->id();
  const v1::Run run = worker->AwaitRun();
  EXPECT_THAT(Delete(queued, /*cancel=*/true), IsOk());
  EXPECT_THAT(Get(queued), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(Get(last)->queue_position(), 1);
  worker->Complete(run, "bytes");
  EXPECT_EQ(worker->AwaitRun().video_id(), last);
  AwaitEnd(running);
  EXPECT_THAT(Delete(running, /*cancel=*/true), IsOk());  // it had ended
  EXPECT_FALSE(HasArtifacts(running));
  EXPECT_THAT(Delete(running, /*cancel=*/true), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(DeleteTest, AStopOfTheFrontendBeforeTheEndDeletesItToo) {
  config_.set_drain_grace_seconds(0);
  Start();
  auto worker = StartWorker();
  const std::string id = Create(Request())->id();
  worker->AwaitRun();
  EXPECT_THAT(Delete(id, /*cancel=*/true), IsOk());
  Restart();  // the worker never answers the cancel
  EXPECT_THAT(Get(id), StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace kinora
