// An artifact sent in chunks, as a frontend receives it.
#include "server/worker/upload_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/common/sha256.h"
#include "server/common/status_details.h"
#include "server/common/upload_limits.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::HasSubstr;

class UploadLineTest : public testing::Test {
 protected:
  UploadLineTest() {
    run_.set_video_id("job");
    run_.set_attempt(2);
  }
  absl::StatusOr<StoredFile> Upload(const std::string& bytes) {
    WriteFile(directory_.File("clip.mp4"), bytes);
    return line_.Upload(run_, "video.mp4", directory_.File("clip.mp4"), [this] { return on_piece_; });
  }

  TemporaryDirectory directory_;
  v1::Run run_;
  std::vector<v1::UploadChunk> pieces_;
  absl::Status on_piece_, answer_;
  bool answers_ = true;
  UploadLine line_{[this](const v1::WorkerMessage& message) {
    pieces_.push_back(message.upload_chunk());
    if (!answers_) return line_.Abort(absl::AbortedError("the frontend has gone"));
    v1::UploadAnswer answer;
    answer.set_video_id("job");
    answer.set_attempt(2);
    answer.set_name("video.mp4");
    if (!answer_.ok()) *answer.mutable_error() = ToRpcStatus(answer_);
    line_.Receive(answer);
  }};
};

TEST_F(UploadLineTest, SendsPiecesInOrderAndTheDigestWithTheLast) {
  std::string bytes(2 * kMostUploadBytes + 5, 'x');
  bytes[kMostUploadBytes] = 'y';
  KINORA_ASSERT_OK_AND_ASSIGN(const StoredFile sent, Upload(bytes));
  EXPECT_EQ(sent.bytes, static_cast<int64_t>(bytes.size()));
  EXPECT_EQ(sent.sha256, Sha256Hex(bytes));
  ASSERT_EQ(pieces_.size(), 3u);
  std::string whole;
  for (const v1::UploadChunk& piece : pieces_) {
    EXPECT_EQ(piece.offset(), static_cast<int64_t>(whole.size()));
    EXPECT_LE(piece.data().size(), kMostUploadBytes);
    EXPECT_EQ(piece.attempt(), 2);
    whole += piece.data();
    EXPECT_EQ(piece.sha256(), whole == bytes ? sent.sha256 : "");
  }
  EXPECT_EQ(whole, bytes);
}

TEST_F(UploadLineTest, AFileOfWholePiecesAndAnEmptyOneHaveALastPieceToo) {
  ASSERT_THAT(Upload(std::string(kMostUploadBytes, 'x')), IsOk());
  ASSERT_EQ(pieces_.size(), 1u);
  EXPECT_NE(pieces_[0].sha256(), "");
  ASSERT_THAT(Upload(""), IsOk());
  ASSERT_EQ(pieces_.size(), 2u);
  EXPECT_EQ(pieces_[1].sha256(), Sha256Hex(""));
}

TEST_F(UploadLineTest, TheFrontendsErrorEndsIt) {
  answer_ = WithErrorInfo(absl::ResourceExhaustedError("artifacts: no space left"), "DISK_FULL", {});
  const absl::Status status = Upload(std::string(2 * kMostUploadBytes, 'x')).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("no space left")));
  EXPECT_THAT(status.ToString(), HasSubstr("DISK_FULL"));
  EXPECT_EQ(pieces_.size(), 1u);
}

TEST_F(UploadLineTest, ACancelEndsItAfterAPiece) {
  on_piece_ = absl::CancelledError("the run was cancelled");
  EXPECT_THAT(Upload(std::string(2 * kMostUploadBytes, 'x')), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(pieces_.size(), 1u);
}

TEST_F(UploadLineTest, AStreamThatEndsEndsItNowAndLater) {
  answers_ = false;
  EXPECT_THAT(Upload("x"), StatusIs(absl::StatusCode::kAborted, HasSubstr("has gone")));
  answers_ = true;
  EXPECT_THAT(Upload("x"), StatusIs(absl::StatusCode::kAborted));
}

TEST_F(UploadLineTest, AFileThatIsNotThereIsSaid) {
  EXPECT_THAT(line_.Upload(run_, "video.mp4", directory_.File("none"), [] { return absl::OkStatus(); }),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_TRUE(pieces_.empty());
}

// A frontend that does not answer ends no upload; the line serves the next one.
TEST_F(UploadLineTest, AnInterruptedUploadEndsWithoutItsAnswerAndALaterOneIsSent) {
  UploadLine* line = nullptr;
  bool silent = true;
  UploadLine quiet([&](const v1::WorkerMessage& message) {
    if (silent) return line->Interrupt();
    v1::UploadAnswer answer;
    answer.set_video_id("job");
    answer.set_attempt(2);
    answer.set_name(message.upload_chunk().name());
    line->Receive(answer);
  });
  line = &quiet;
  WriteFile(directory_.File("point"), "state");
  const auto upload = [&] {
    return quiet.Upload(run_, "resume-1", directory_.File("point"), &absl::OkStatus).status();
  };
  EXPECT_THAT(upload(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(upload(), StatusIs(absl::StatusCode::kCancelled));  // until Resume
  silent = false;
  quiet.Resume();
  EXPECT_THAT(upload(), IsOk());
}

}  // namespace
}  // namespace kinora
