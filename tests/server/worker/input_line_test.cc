// An input that arrives in chunks, as from a frontend.
#include "server/worker/input_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "server/common/directory_artifact_store.h"
#include "server/common/status_details.h"
#include "tests/testing/full_disk.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::HasSubstr;

constexpr size_t kPiece = 1000;

class InputLineTest : public testing::Test {
 protected:
  InputLineTest() {
    run_.set_video_id("job");
    run_.set_attempt(2);
  }
  absl::StatusOr<FileDescriptor> Fetch(const std::string& folder) {
    const auto store = DirectoryArtifactStore::Named(folder);
    return line_.Fetch(run_, "id", *store, [this] {
      ++pieces_;
      return on_piece_;
    });
  }
  absl::StatusOr<FileDescriptor> Fetch() { return Fetch(directory_.File("")); }
  void Answer(const v1::InputFetch& fetch) {
    EXPECT_EQ(fetch.attempt(), 2);
    v1::InputPiece piece;
    piece.set_video_id(fetch.video_id());
    piece.set_attempt(fetch.attempt() - 1);  // from an earlier attempt: dropped
    piece.set_input_id(fetch.input_id());
    line_.Receive(piece);
    piece.set_attempt(fetch.attempt());
    piece.set_offset(fetch.offset() + skipped_);
    if (error_.ok()) {
      piece.set_data(bytes_.substr(fetch.offset(), kPiece));
      piece.set_last(fetch.offset() + kPiece >= bytes_.size());
    } else {
      *piece.mutable_error() = ToRpcStatus(error_);
    }
    line_.Receive(piece);
  }

  TemporaryDirectory directory_;
  v1::Run run_;
  std::string bytes_ = std::string(kPiece, 'x') + std::string(kPiece, 'y') + "z";
  absl::Status on_piece_, error_;
  int64_t skipped_ = 0;
  int pieces_ = 0;
  bool answers_ = true;
  InputLine line_{[this](const v1::WorkerMessage& message) {
    if (!answers_) return line_.Abort(absl::AbortedError("the frontend has gone"));
    Answer(message.input_fetch());
  }};
};

std::string Contents(int fd) {
  std::string bytes(10'000, '\0');
  bytes.resize(pread(fd, bytes.data(), bytes.size(), 0));
  return bytes;
}

TEST_F(InputLineTest, IsAFileWithoutANameThatCannotBeWritten) {
  KINORA_ASSERT_OK_AND_ASSIGN(const FileDescriptor file, Fetch());
  EXPECT_EQ(Contents(file.get()), bytes_);
  EXPECT_EQ(pieces_, 3);
  EXPECT_TRUE(std::filesystem::is_empty(directory_.File("")));
  EXPECT_EQ(write(file.get(), "x", 1), -1);
}

TEST_F(InputLineTest, WholePiecesAndAnEmptyFileEndToo) {
  bytes_ = std::string(2 * kPiece, 'x');
  KINORA_ASSERT_OK_AND_ASSIGN(const FileDescriptor whole, Fetch());
  EXPECT_EQ(Contents(whole.get()), bytes_);
  bytes_ = "";
  KINORA_ASSERT_OK_AND_ASSIGN(const FileDescriptor empty, Fetch());
  EXPECT_EQ(Contents(empty.get()), "");
}

TEST_F(InputLineTest, PiecesThatDoNotFollowEachOtherAreRefused) {
  skipped_ = 1;
  EXPECT_THAT(Fetch().status(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("from offset 1 instead of 0")));
}

TEST_F(InputLineTest, TheFrontendsErrorEndsIt) {
  error_ = absl::NotFoundError("an input that this run does not name");
  EXPECT_THAT(Fetch().status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("does not name")));
  EXPECT_TRUE(std::filesystem::is_empty(directory_.File("")));
}

TEST_F(InputLineTest, ACancelEndsItAfterAPiece) {
  on_piece_ = absl::CancelledError("the run was cancelled");
  EXPECT_THAT(Fetch().status(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(pieces_, 1);
}

TEST_F(InputLineTest, AStreamThatEndsEndsItNowAndLater) {
  answers_ = false;
  EXPECT_THAT(Fetch().status(), StatusIs(absl::StatusCode::kAborted, HasSubstr("has gone")));
  answers_ = true;
  EXPECT_THAT(Fetch().status(), StatusIs(absl::StatusCode::kAborted));
}

TEST_F(InputLineTest, AFullDiskIsSaidAndNothingIsLeftThere) {
  const std::string disk = directory_.File("disk");
  std::filesystem::create_directory(disk);
  bytes_ = std::string(128 << 10, 'x');
  const auto result = OnSmallDisk(disk, 64 << 10, [&]() -> std::string {
    const absl::Status status = Fetch(disk).status();
    if (!absl::IsResourceExhausted(status)) return status.ToString();
    return std::filesystem::is_empty(disk) ? "" : "something is left";
  });
  if (result == SmallDiskResult::kNotPermitted) GTEST_SKIP() << "no mount namespaces here";
  EXPECT_EQ(result, SmallDiskResult::kPassed);
}

}  // namespace
}  // namespace kinora
