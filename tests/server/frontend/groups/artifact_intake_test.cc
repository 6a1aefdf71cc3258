// Artifacts that arrive in chunks: their files, and the ranks from which the dispatcher accepts chunks.
#include "server/frontend/groups/artifact_intake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "server/common/directory_artifact_store.h"
#include "server/common/sha256.h"
#include "server/common/upload_limits.h"
#include "server/frontend/groups/resume_files.h"
#include "tests/server/frontend/groups/dispatcher_fixture.h"
#include "tests/testing/full_disk.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kBytes = "the first half, and the second";

v1::UploadChunk Piece(int64_t begin, int64_t end, const std::string& whole = kBytes) {
  v1::UploadChunk chunk;
  chunk.set_name("video.mp4");
  chunk.set_offset(begin);
  chunk.set_data(whole.substr(begin, end - begin));
  if (end == static_cast<int64_t>(whole.size())) chunk.set_sha256(Sha256Hex(whole));
  return chunk;
}

std::vector<std::string> FilesIn(const std::string& root) {  // including unfinished ones
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.is_regular_file()) files.push_back(std::filesystem::relative(entry.path(), root));
  }
  return files;
}

class IntakeTest : public testing::Test {
 protected:
  void SetUp() override { Start(directory_.File("artifacts")); }
  void Start(const std::string& root) {
    KINORA_ASSERT_OK_AND_ASSIGN(store_, DirectoryArtifactStore::At(root));
    intake_ = std::make_unique<ArtifactIntake>(*store_, Clock::Steady());
  }
  absl::StatusOr<std::optional<StoredFile>> Take(const v1::UploadChunk& chunk) {
    return WaitFor<std::optional<StoredFile>>([&](auto done) { intake_->Take("job/2", chunk, std::move(done)); });
  }
  std::vector<std::string> Files() const { return FilesIn(store_->root()); }

  TemporaryDirectory directory_;
  std::unique_ptr<DirectoryArtifactStore> store_;
  std::unique_ptr<ArtifactIntake> intake_;
};

TEST_F(IntakeTest, PiecesBecomeAnArtifactOnceItIsWhole) {
  KINORA_ASSERT_OK_AND_ASSIGN(const auto half, Take(Piece(0, 10)));
  EXPECT_FALSE(half.has_value());
  EXPECT_EQ(store_->Size("job/2/video.mp4").status().code(), absl::StatusCode::kNotFound);
  KINORA_ASSERT_OK_AND_ASSIGN(const auto whole, Take(Piece(10, 30)));
  const StoredFile stored = whole.value_or(StoredFile{});
  EXPECT_EQ(stored.bytes, 30);
  EXPECT_EQ(stored.sha256, Sha256Hex(kBytes));
  EXPECT_THAT(Files(), ElementsAre("job/2/video.mp4"));
  EXPECT_EQ(store_->Read("job/2/video.mp4", 0, 100)->data, kBytes);
}

TEST_F(IntakeTest, OtherBytesThanTheDigestsAreNoArtifact) {
  v1::UploadChunk wrong = Piece(0, 30);
  wrong.set_sha256(Sha256Hex("other bytes"));
  EXPECT_THAT(Take(wrong), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("artifact video.mp4: its digest differs")));
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_TRUE(Take(Piece(0, 30))->has_value()) << "the next try is its own";
}

TEST_F(IntakeTest, AMissingPieceEndsTheArtifact) {
  EXPECT_THAT(Take(Piece(0, 10)), IsOk());
  EXPECT_THAT(Take(Piece(20, 30)), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("offset 20 instead of 10")));
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_THAT(Take(Piece(10, 30)), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("instead of 0")));
}

TEST_F(IntakeTest, ARunThatEndsAndAnIntakeThatEndsLeaveNothingUnfinished) {
  EXPECT_THAT(Take(Piece(0, 10)), IsOk());
  intake_->Drop("job/2");
  EXPECT_THAT(Take(Piece(10, 30)), StatusIs(absl::StatusCode::kDataLoss));  // by now the other chunk has been handled
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_THAT(Take(Piece(0, 10)), IsOk());
  EXPECT_EQ(Files().size(), 1u);
  intake_.reset();
  EXPECT_THAT(Files(), IsEmpty());
}

v1::UploadChunk Named(const std::string& name, v1::UploadChunk chunk) {
  chunk.set_name(name);
  return chunk;
}

TEST_F(IntakeTest, OneArtifactOfARunIsOpenAtATime) {
  EXPECT_THAT(Take(Piece(0, 10)), IsOk());
  EXPECT_THAT(Take(Named("trace.json", Piece(10, 30))),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("artifact video.mp4 is not complete yet")));
  EXPECT_EQ(Files().size(), 1u);
  EXPECT_TRUE(Take(Piece(10, 30))->has_value()) << "the refusal has harmed it";
  EXPECT_TRUE(Take(Named("trace.json", Piece(0, 30)))->has_value());
}

TEST_F(IntakeTest, TheBeginningOfAnotherArtifactGivesUpTheIncompleteOne) {
  for (size_t i = 0; i < 2 * ArtifactIntake::kMostNames; ++i) {
    EXPECT_THAT(Take(Named(absl::StrCat("resume-", i), Piece(0, 10))), IsOk());
    EXPECT_EQ(Files().size(), 1u);
  }
  EXPECT_TRUE(Take(Piece(0, 30))->has_value());
  EXPECT_THAT(Files(), ElementsAre("job/2/video.mp4"));
}

TEST_F(IntakeTest, ARunHasFewArtifacts) {
  for (size_t i = 0; i < ArtifactIntake::kMostNames; ++i) {
    EXPECT_THAT(Take(Named(absl::StrCat(i), Piece(0, 30))), IsOk());
  }
  EXPECT_THAT(Take(Named("one_more", Piece(0, 30))),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("at most 4 artifacts")));
  EXPECT_THAT(Take(Named("0", Piece(0, 30))), IsOk());
  EXPECT_EQ(Files().size(), ArtifactIntake::kMostNames);
}

TEST_F(IntakeTest, AnArtifactThatFailedTakesNoPlace) {
  for (size_t i = 0; i < 2 * ArtifactIntake::kMostNames; ++i) {
    v1::UploadChunk damaged = Named(absl::StrCat("resume-", i), Piece(0, 30));
    damaged.set_sha256(Sha256Hex("other bytes"));
    EXPECT_THAT(Take(damaged), StatusIs(absl::StatusCode::kDataLoss));
  }
  EXPECT_TRUE(Take(Piece(0, 30))->has_value());
}

TEST_F(IntakeTest, AResumePointThatCountsMakesRoomForTheNext) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_THAT(Take(Named(absl::StrCat("resume-", i), Piece(0, 30))), IsOk());
    intake_->Release("job/2", absl::StrCat("resume-", i));
  }
}

TEST_F(IntakeTest, ANameThatLeadsElsewhereIsRefused) {
  v1::UploadChunk chunk = Piece(0, 30);
  chunk.set_name("../3/video.mp4");
  EXPECT_THAT(Take(chunk), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Files(), IsEmpty());
}

TEST(FullDisk, EndsTheArtifactWithItsReasonAndLeavesNothing) {
  TemporaryDirectory directory;
  const std::string disk = directory.File("disk");
  std::filesystem::create_directory(disk);
  const auto result = OnSmallDisk(disk, 64 << 10, [&]() -> std::string {
    auto store = DirectoryArtifactStore::At(disk + "/artifacts");
    ArtifactIntake intake(**store, Clock::Steady());
    const std::string large(128 << 10, 'x');
    const auto taken = WaitFor<std::optional<StoredFile>>(
        [&](auto done) { intake.Take("job/1", Piece(0, large.size(), large), std::move(done)); });
    std::string text = taken.status().ToString();
    if (!absl::IsResourceExhausted(taken.status()) || text.find("DISK_FULL") == std::string::npos) return text;
    if (text.find(disk) != std::string::npos) return text;
    return FilesIn(disk).empty() ? "" : "something is left";
  });
  if (result == SmallDiskResult::kNotPermitted) GTEST_SKIP() << "no mount namespaces here";
  EXPECT_EQ(result, SmallDiskResult::kPassed);
}

// A group of two ranks that joined through the join port, and a job that it runs.
class UploadTest : public DispatcherTest {
 protected:
  void SetUp() override {
    KINORA_ASSERT_OK_AND_ASSIGN(store_here_, DirectoryArtifactStore::At(directory_.File("artifacts")));
    own_intake_ = std::make_unique<ArtifactIntake>(*store_here_, Clock::Steady());
    intake_ = own_intake_.get();
    resume_files_ = std::make_unique<ResumeFiles>(*store_here_, clock_, loops_.Make());
    points_ = resume_files_.get();
    StartDispatcher();
    dispatcher_->Await("far", 2);
    JoinAll();
  }
  ~UploadTest() override { dispatcher_.reset(); }  // before the intake

  void JoinAll() {
    ranks_.clear();
    for (int rank = 0; rank < 2; ++rank) {
      ranks_.push_back(std::make_shared<RecordingLink>());
      v1::Hello hello = HelloOf("", "far");
      hello.set_rank(rank);
      hello.set_world_size(2);
      dispatcher_->Join(hello, ranks_[rank], Entrance::kJoinPort);
      EXPECT_EQ(ranks_[rank]->Next().welcome().artifact_directory(), "");
    }
    for (const auto& rank : ranks_) {
      v1::WorkerMessage ready;
      if (rank == ranks_[0]) ready.mutable_ready()->mutable_model()->set_id("tiny");
      ready.mutable_ready()->set_precision("f32");
      dispatcher_->Receive(rank, ready);
    }
  }
  v1::Run AwaitRunOfBoth() {
    AwaitRun(*ranks_[1]);
    return AwaitRun(*ranks_[0]);
  }
  absl::Status Upload(const v1::Run& run, v1::UploadChunk chunk) {
    chunk.set_video_id(run.video_id());
    chunk.set_attempt(run.attempt());
    v1::WorkerMessage message;
    *message.mutable_upload_chunk() = std::move(chunk);
    dispatcher_->Receive(ranks_[0], message);
    const v1::FrontendMessage answer = ranks_[0]->Next();
    EXPECT_EQ(answer.upload_answer().video_id(), run.video_id()) << answer.ShortDebugString();
    EXPECT_EQ(answer.upload_answer().attempt(), run.attempt());
    return FromRpcStatus(answer.upload_answer().error());
  }
  void EndBoth(const v1::Run& run) {
    v1::WorkerMessage message;
    v1::RunResult& result = *message.mutable_run_result();
    result.set_video_id(run.video_id());
    result.set_attempt(run.attempt());
    dispatcher_->Receive(ranks_[1], message);
    v1::Artifact& artifact = *result.add_artifacts();
    artifact.set_id("video.mp4");
    artifact.set_bytes(static_cast<int64_t>(kBytes.size()));
    artifact.set_sha256(Sha256Hex(kBytes));
    dispatcher_->Receive(ranks_[0], message);
  }

  TemporaryDirectory directory_;
  std::unique_ptr<DirectoryArtifactStore> store_here_;
  std::unique_ptr<ArtifactIntake> own_intake_;
  std::unique_ptr<ResumeFiles> resume_files_;
  std::vector<std::shared_ptr<RecordingLink>> ranks_;
};

TEST_F(UploadTest, AJobIsCompletedByWhatHasCome) {
  const JobId id = Submit();
  const v1::Run run = AwaitRunOfBoth();
  EXPECT_THAT(Upload(run, Piece(0, 10)), IsOk());
  EXPECT_THAT(Upload(run, Piece(10, 30)), IsOk());
  EndBoth(run);
  AwaitState(id, v1::Video::COMPLETED);
  EXPECT_THAT(FilesIn(store_here_->root()), ElementsAre(absl::StrCat(id, "/1/video.mp4")));
}

TEST_F(UploadTest, WhatHasNotComeWholeDoesNotCountWhateverTheWorkerSays) {
  const JobId id = Submit();
  const v1::Run run = AwaitRunOfBoth();
  EXPECT_THAT(Upload(run, Piece(0, 10)), IsOk());
  EndBoth(run);
  const v1::Video video = AwaitState(id, v1::Video::FAILED);
  EXPECT_THAT(FromRpcStatus(video.error()), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("artifact video.mp4")));
}

TEST_F(UploadTest, PiecesOfAnotherRunAreRefused) {
  Submit();
  const v1::Run run = AwaitRunOfBoth();
  v1::Run other = run;
  other.set_attempt(run.attempt() + 1);
  EXPECT_THAT(Upload(other, Piece(0, 10)), StatusIs(absl::StatusCode::kAborted));
  other = run;
  other.set_video_id("another");
  EXPECT_THAT(Upload(other, Piece(0, 10)), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(FilesIn(store_here_->root()), IsEmpty());
  EXPECT_THAT(Upload(run, Piece(0, kMostUploadBytes + 1, std::string(kMostUploadBytes + 1, 'x'))),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at most 1048576")));
}

TEST_F(UploadTest, AGroupThatIsLostInTheMiddleLeavesNothingAndTheNextAttemptIsItsOwn) {
  const JobId id = Submit();
  const v1::Run first = AwaitRunOfBoth();
  EXPECT_THAT(Upload(first, Piece(0, 10)), IsOk());
  dispatcher_->Disconnect(ranks_[1], absl::OkStatus());
  AwaitState(id, v1::Video::QUEUED, /*times=*/2);
  JoinAll();
  const v1::Run second = AwaitRunOfBoth();
  EXPECT_EQ(second.attempt(), 2);
  EXPECT_THAT(Upload(first, Piece(10, 30)), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(Upload(second, Piece(0, 30)), IsOk());
  EXPECT_THAT(FilesIn(store_here_->root()), ElementsAre(absl::StrCat(id, "/2/video.mp4")));
  EndBoth(second);
  AwaitState(id, v1::Video::COMPLETED);
}

TEST_F(UploadTest, AResumePointCountsOnceItHasComeWholeAndItIsMarked) {
  const JobId id = Submit();
  const v1::Run run = AwaitRunOfBoth();
  v1::WorkerMessage message;
  v1::ResumeMark& mark = *message.mutable_resume();
  mark.set_video_id(id);
  mark.set_attempt(1);
  mark.mutable_point()->set_stage(v1::STAGE_DENOISE);
  mark.mutable_point()->set_bytes(static_cast<int64_t>(kBytes.size()));
  mark.mutable_point()->set_sha256(Sha256Hex(kBytes));
  const auto point = [&] {
    Settle();
    return WaitFor<v1::Video>([&](auto done) { store_->Get(id, std::move(done)); })->resume_point().stage();
  };
  for (const char* name : {"resume-1", "resume-2"}) {
    mark.mutable_point()->set_id(name);
    dispatcher_->Receive(ranks_[0], message);  // too early
    EXPECT_EQ(point(), std::string(name) == "resume-1" ? "" : "denoise");
    EXPECT_THAT(Upload(run, Named(name, Piece(0, 30))), IsOk());
    dispatcher_->Receive(ranks_[0], message);
    EXPECT_EQ(point(), "denoise");
  }
  EXPECT_THAT(Upload(run, Named("resume-3", Piece(0, 30))), IsOk());
  mark.mutable_point()->set_id("resume-3");
  mark.mutable_point()->set_sha256(Sha256Hex("other bytes"));
  dispatcher_->Receive(ranks_[0], message);
  point();
  dispatcher_->Disconnect(ranks_[1], absl::OkStatus());
  AwaitState(id, v1::Video::QUEUED, /*times=*/2);
  JoinAll();
  const v1::Run again = AwaitRunOfBoth();
  EXPECT_EQ(again.resume_from().id(), "resume-2");
  EXPECT_EQ(again.input_paths().at("resume"), absl::StrCat(id, "/1/resume-2"));
}

TEST_F(UploadTest, PointsThatAreRefusedTakeNoPlaceOfTheClip) {
  const JobId id = Submit();
  const v1::Run run = AwaitRunOfBoth();
  v1::WorkerMessage message;
  v1::ResumeMark& mark = *message.mutable_resume();
  mark.set_video_id(id);
  mark.set_attempt(1);
  mark.mutable_point()->set_stage(v1::STAGE_DENOISE);
  mark.mutable_point()->set_bytes(static_cast<int64_t>(kBytes.size()));
  mark.mutable_point()->set_sha256(Sha256Hex("other bytes"));
  for (size_t i = 0; i < 2 * ArtifactIntake::kMostNames; ++i) {
    mark.mutable_point()->set_id(absl::StrCat("resume-", i));
    EXPECT_THAT(Upload(run, Named(mark.point().id(), Piece(0, 30))), IsOk());
    dispatcher_->Receive(ranks_[0], message);
  }
  EXPECT_THAT(Upload(run, Piece(0, 30)), IsOk());
  EndBoth(run);
  AwaitState(id, v1::Video::COMPLETED);
  Settle();
  EXPECT_THAT(FilesIn(store_here_->root()), ElementsAre(absl::StrCat(id, "/1/video.mp4")));
}

TEST_F(UploadTest, ARankThatIsNotTheFirstHasNothingToSend) {
  const JobId id = Submit();
  const v1::Run run = AwaitRunOfBoth();
  v1::WorkerMessage message;
  *message.mutable_upload_chunk() = Piece(0, 30);
  message.mutable_upload_chunk()->set_video_id(run.video_id());
  message.mutable_upload_chunk()->set_attempt(run.attempt());
  dispatcher_->Receive(ranks_[1], message);
  EXPECT_THAT(ranks_[0]->Next().abort().why(), HasSubstr("rank 1 failed: it sent an artifact"));
  AwaitState(id, v1::Video::QUEUED, /*times=*/2);
}

}  // namespace
}  // namespace kinora
