// Inputs requested by workers without access to the frontend's directory: what is read, and who receives it.
#include "server/frontend/groups/input_supply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "server/common/directory_artifact_store.h"
#include "server/common/sha256.h"
#include "server/common/upload_limits.h"
#include "server/frontend/groups/resume_files.h"
#include "server/request/input_refs.h"
#include "tests/server/frontend/groups/dispatcher_fixture.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::HasSubstr;

const std::string kBytes = std::string(kMostUploadBytes, 'x') + "and some more";

class InputSupplyTest : public DispatcherTest {
 protected:
  void SetUp() override {
    KINORA_ASSERT_OK_AND_ASSIGN(files_, DirectoryArtifactStore::At(directory_.File("artifacts")));
    std::filesystem::create_directory(files_->root() + "/inputs");
    for (const std::string& bytes : {kBytes, std::string("of another job")}) {
      WriteFile(absl::StrCat(files_->root(), "/", InputKey(Sha256Hex(bytes))), bytes);
    }
    supply_ = std::make_unique<InputSupply>(*files_, Clock::Steady());
    inputs_ = supply_.get();
    resume_files_ = std::make_unique<ResumeFiles>(*files_, Clock::Steady());
    points_ = resume_files_.get();
    StartDispatcher();
    JoinAll();
  }
  void JoinAll() {
    dispatcher_->Await("far", 1);
    v1::Hello hello = HelloOf("", "far");
    dispatcher_->Join(hello, rank_, Entrance::kJoinPort);
    ASSERT_EQ(rank_->Next().welcome().artifact_directory(), "");
    v1::WorkerMessage ready;
    ready.mutable_ready()->mutable_model()->set_id("tiny");
    dispatcher_->Receive(rank_, ready);
  }
  ~InputSupplyTest() override { dispatcher_.reset(); }  // before the supply it uses

  v1::Run RunWith(const std::string& input) {
    v1::CreateVideoRequest request;
    request.mutable_generation()->add_conditions()->mutable_image()->set_input_id(input);
    id_ = Submit(request);
    return AwaitRun(*rank_);
  }
  v1::WorkerMessage Question(const v1::Run& run, const std::string& input, int64_t offset) {
    v1::WorkerMessage message;
    v1::InputFetch& fetch = *message.mutable_input_fetch();
    fetch.set_video_id(run.video_id());
    fetch.set_attempt(run.attempt());
    fetch.set_input_id(input);
    fetch.set_offset(offset);
    return message;
  }
  v1::InputPiece Fetch(const v1::Run& run, const std::string& input, int64_t offset) {
    dispatcher_->Receive(rank_, Question(run, input, offset));
    v1::InputPiece piece = rank_->Next().input_piece();
    EXPECT_EQ(piece.video_id(), run.video_id());
    EXPECT_EQ(piece.attempt(), run.attempt());
    EXPECT_EQ(piece.input_id(), input);
    EXPECT_EQ(piece.offset(), offset);
    return piece;
  }
  absl::Status Rejection(const v1::Run& run, const std::string& input, int64_t offset = 0) {
    const v1::InputPiece piece = Fetch(run, input, offset);
    EXPECT_EQ(piece.data(), "");
    return FromRpcStatus(piece.error());
  }

  TemporaryDirectory directory_;
  std::unique_ptr<DirectoryArtifactStore> files_;
  std::unique_ptr<InputSupply> supply_;
  std::unique_ptr<ResumeFiles> resume_files_;
  std::shared_ptr<RecordingLink> rank_ = std::make_shared<RecordingLink>();
  JobId id_;
};

TEST_F(InputSupplyTest, GivesAFileInPiecesToTheRunThatNamesIt) {
  const std::string input = Sha256Hex(kBytes);
  const v1::Run run = RunWith(input);
  const v1::InputPiece first = Fetch(run, input, 0);
  EXPECT_EQ(first.data().size(), kMostUploadBytes);
  EXPECT_FALSE(first.last());
  const v1::InputPiece second = Fetch(run, input, kMostUploadBytes);
  EXPECT_TRUE(second.last());
  EXPECT_EQ(first.data() + second.data(), kBytes);
}

TEST_F(InputSupplyTest, NothingElseIsGiven) {
  const std::string input = Sha256Hex(kBytes);
  v1::Run run = RunWith(input);
  EXPECT_THAT(Rejection(run, Sha256Hex("of another job")),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("the run does not use this input")));
  EXPECT_THAT(Rejection(run, input, -1), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("offset: -1")));
  EXPECT_THAT(Rejection(run, input, std::ssize(kBytes) + 1), StatusIs(absl::StatusCode::kInvalidArgument));
  run.set_attempt(run.attempt() + 1);
  EXPECT_THAT(Rejection(run, input), StatusIs(absl::StatusCode::kAborted));
}

TEST_F(InputSupplyTest, ARunThatIsOfferedAResumePointMayFetchItAndNoOther) {
  const v1::Run run = RunWith(Sha256Hex(kBytes));
  EXPECT_THAT(Rejection(run, "resume"), StatusIs(absl::StatusCode::kNotFound));
  const Attempt attempt{.id = id_, .number = 1, .owner = owner_};
  v1::ResumePoint point;
  point.set_id("resume-1");
  point.set_stage(v1::STAGE_DENOISE);
  point.set_bytes(std::ssize(kBytes));
  EXPECT_THAT(WaitFor<std::optional<v1::ResumeMark>>(
                  [&](auto done) { store_->PutResumePoint(attempt, point, std::move(done)); }),
              IsOk());
  std::filesystem::create_directories(absl::StrCat(files_->root(), "/", id_, "/1"));
  WriteFile(absl::StrCat(files_->root(), "/", id_, "/1/resume-1"), kBytes);
  dispatcher_->Disconnect(rank_, absl::OkStatus());
  AwaitState(id_, v1::Video::QUEUED, /*times=*/2);
  rank_ = std::make_shared<RecordingLink>();
  JoinAll();
  const v1::Run again = AwaitRun(*rank_);
  EXPECT_EQ(Fetch(again, "resume", 0).data() + Fetch(again, "resume", kMostUploadBytes).data(), kBytes);
}

TEST_F(InputSupplyTest, AFileThatIsGoneIsSaidWithoutItsPath) {
  const std::string input = Sha256Hex(kBytes);
  const v1::Run run = RunWith(input);
  std::filesystem::remove_all(files_->root() + "/inputs");
  const absl::Status status = Rejection(run, input);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal, HasSubstr(input)));
  EXPECT_EQ(status.ToString().find(directory_.File("")), std::string::npos) << status;
}

TEST_F(InputSupplyTest, WhoAsksTwiceAtOnceIsLost) {
  const std::string input = Sha256Hex(kBytes);
  const v1::Run run = RunWith(input);
  absl::Notification asked_twice;
  dispatcher_->ListGroups([&](const auto&) { asked_twice.WaitForNotification(); });  // blocks the loop
  for (int i = 0; i < 2; ++i) dispatcher_->Receive(rank_, Question(run, input, 0));
  asked_twice.Notify();
  std::string lost;
  while (lost.empty()) lost = rank_->Next().abort().why();  // an answer to the first may arrive before
  EXPECT_THAT(lost, HasSubstr("its previous request is unanswered"));
  AwaitState(id_, v1::Video::QUEUED, /*times=*/2);
}

}  // namespace
}  // namespace kinora
