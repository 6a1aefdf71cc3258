// Where a run begins that names a stored state, with a state that is fetched from a frontend elsewhere.
#include "server/worker/resume_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/common/directory_artifact_store.h"
#include "server/common/sha256.h"
#include "server/common/stage_conversion.h"
#include "server/common/status_details.h"
#include "server/worker/file_lines.h"
#include "tests/testing/fake_model.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

class ResumeStartTest : public testing::Test {
 protected:
  ResumeStartTest() {
    run_.set_video_id("job");
    run_.set_attempt(3);
    run_.mutable_generation()->set_prompt("a kite");
    prepared_ = *model_.Prepare(run_.generation());
    v1::ResumePoint& point = *run_.mutable_resume_from();
    point.set_id("resume-4");
    point.set_bytes(static_cast<int64_t>(file_.size()));
    point.set_sha256(Sha256Hex(file_));
    SetStage({StageKind::kDenoise}, point);
    point.set_step(1);
  }
  ResumeStart Find(const Model::GoOn& go_on = &absl::OkStatus) {
    const RunInputs inputs{.store = *store_, .line = &lines_.inputs, .decoder = ""};
    return FindResumeStart(model_, inputs, run_, prepared_, go_on);
  }

  TemporaryDirectory directory_;
  std::unique_ptr<DirectoryArtifactStore> store_ = *DirectoryArtifactStore::At(directory_.path());
  FakeModel model_;
  v1::Run run_;
  PreparedRun prepared_;
  std::string file_ = "the state after step 1";
  absl::Status answer_;
  std::vector<std::string> asked_;
  FileLines lines_{[this](const v1::WorkerMessage& message) {
    const v1::InputFetch& fetch = message.input_fetch();
    asked_.push_back(absl::StrCat(fetch.input_id(), " from ", fetch.offset()));
    v1::InputPiece piece;
    piece.set_video_id(fetch.video_id());
    piece.set_attempt(fetch.attempt());
    piece.set_input_id(fetch.input_id());
    piece.set_offset(fetch.offset());
    constexpr size_t kPiece = 16;
    piece.set_data(file_.substr(fetch.offset(), kPiece));
    piece.set_last(fetch.offset() + kPiece >= file_.size());
    if (!answer_.ok()) *piece.mutable_error() = ToRpcStatus(answer_);
    lines_.inputs.Receive(piece);
  }};
};

TEST_F(ResumeStartTest, IsThePointThatTheFrontendSends) {
  const ResumeStart start = Find();
  EXPECT_EQ(start.why_not, "");
  ASSERT_NE(start.point, nullptr);
  EXPECT_EQ(start.point->step, 1);
  EXPECT_THAT(asked_, testing::ElementsAre("resume from 0", "resume from 16"));
  prepared_.from = start.point;
  EXPECT_EQ(ResumedStage(prepared_).name(), "denoise");
}

TEST_F(ResumeStartTest, IsTheBeginningForARunThatNamesNoState) {
  run_.clear_resume_from();
  const ResumeStart start = Find();
  EXPECT_EQ(start.point, nullptr);
  EXPECT_EQ(start.why_not, "");
  EXPECT_TRUE(asked_.empty());
}

TEST_F(ResumeStartTest, IsTheBeginningIfTheFrontendHasNoFileOrAnother) {
  answer_ = absl::NotFoundError("the run does not name this input");
  EXPECT_EQ(Find().why_not, "the stored state cannot be read: the run does not name this input");
  answer_ = absl::OkStatus();
  file_.back() = '2';
  EXPECT_EQ(Find().why_not, "the stored state is damaged: its bytes are not those that were stored");
  file_ += "3";
  EXPECT_EQ(Find().why_not, "the stored state is damaged: it has 23 bytes instead of 22");
}

// Nothing is fetched that cannot be a state of this run.
TEST_F(ResumeStartTest, IsTheBeginningIfTheFileIsTooLarge) {
  run_.mutable_resume_from()->set_bytes(101);
  EXPECT_EQ(Find().why_not, "the stored state is damaged: it has 101 bytes, but at most 100 fit the run");
  run_.mutable_resume_from()->set_bytes(-1);
  EXPECT_NE(Find().why_not, "");
  EXPECT_TRUE(asked_.empty());
}

TEST_F(ResumeStartTest, IsTheBeginningForACancelledRunWhichEndsLater) {
  EXPECT_NE(Find([] { return absl::CancelledError("the run was cancelled"); }).why_not, "");
  EXPECT_EQ(asked_.size(), 1u);
}

TEST_F(ResumeStartTest, IsTheBeginningIfTheLineIsLost) {
  lines_.Abort(absl::AbortedError("the frontend has gone"));
  EXPECT_EQ(Find().why_not, "the stored state cannot be read: the frontend has gone");
}

}  // namespace
}  // namespace kinora
