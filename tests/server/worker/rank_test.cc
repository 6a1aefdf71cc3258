// How a process of a group handles a run, with a scripted model.
#include "server/worker/rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <new>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/media/jpeg.h"
#include "server/common/directory_artifact_store.h"
#include "server/common/sha256.h"
#include "server/common/stage_conversion.h"
#include "server/common/status_details.h"
#include "server/worker/join_rendezvous.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_model.h"
#include "tests/testing/full_disk.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class RankTest : public testing::Test {
 protected:
  RankTest() {
    run_.set_video_id("job");
    run_.set_attempt(2);
    run_.set_artifact_key("job/2");
    run_.mutable_generation()->set_prompt("a kite");
  }
  void SetUp() override {
    KINORA_ASSERT_OK_AND_ASSIGN(store_, DirectoryArtifactStore::At(directory_.File("artifacts")));
  }

  v1::RunResult Run(Rank& rank) {
    return rank.Run({.model = model_,
                     .metrics = metrics_,
                     .send = [this](const v1::WorkerMessage& message) { sent_.push_back(message); },
                     .cancelled = cancelled_,
                     .units_done = units_done_,
                     .fitness = &fitness_,
                     .steady = clock_},
                    run_);
  }
  v1::RunResult Lead() {
    LeadingRank rank(*store_);
    return Run(rank);
  }
  std::vector<std::string> Files() const {  // in the store, including unfinished ones
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(store_->root())) {
      if (entry.is_regular_file()) files.push_back(std::filesystem::relative(entry.path(), store_->root()));
    }
    return files;
  }

  TemporaryDirectory directory_;
  prometheus::Registry registry_;
  WorkerMetrics metrics_{registry_};
  FakeModel model_;
  FakeClock clock_;
  std::unique_ptr<DirectoryArtifactStore> store_;
  v1::Run run_;
  std::vector<v1::WorkerMessage> sent_;
  std::atomic<bool> cancelled_ = false;
  std::atomic<int64_t> units_done_ = 0;
  absl::Status sound_;  // the machine's fitness
  Fitness fitness_{[this] { return sound_; }};
};

TEST_F(RankTest, OnAMachineThatIsUnfitARunIsReleased) {
  sound_ = absl::NotFoundError("scratch_directory: it has gone");
  const v1::RunResult result = Lead();
  EXPECT_THAT(FromRpcStatus(result.error()),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("unfit: scratch_directory: it has gone")));
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(RankTest, ARunThatFailsOnAMachineThatHasBecomeUnfitIsReleased) {
  model_.run = [this](ClipSink*, FakeModel::Report) {
    sound_ = absl::NotFoundError("scratch_directory: it has gone");
    return absl::NotFoundError("creating video.mp4");
  };
  EXPECT_THAT(FromRpcStatus(Lead().error()), StatusIs(absl::StatusCode::kCancelled, HasSubstr("unfit")));
  model_.run = [this](ClipSink*, FakeModel::Report) {
    sound_ = absl::OkStatus();
    return absl::InternalError("the model's own");
  };
  sound_ = absl::OkStatus();
  EXPECT_THAT(FromRpcStatus(Lead().error()), StatusIs(absl::StatusCode::kInternal));
}

TEST_F(RankTest, TheLeadingRankAnswersWithADurableArtifact) {
  const v1::RunResult result = Lead();
  ASSERT_THAT(FromRpcStatus(result.error()), IsOk());
  EXPECT_EQ(result.video_id(), "job");
  EXPECT_EQ(result.attempt(), 2);
  EXPECT_EQ(result.usage().device_seconds(), 3);
  EXPECT_THAT(result.usage().stage_seconds(), testing::SizeIs(2));  // denoise and finalize
  ASSERT_EQ(result.artifacts_size(), 1);
  EXPECT_EQ(result.artifacts(0).id(), "video.mp4");
  EXPECT_EQ(result.artifacts(0).sha256().size(), 64u);
  EXPECT_THAT(Files(), ElementsAre("job/2/video.mp4"));
  EXPECT_EQ(std::filesystem::file_size(store_->root() + "/job/2/video.mp4"),
            static_cast<uint64_t>(result.artifacts(0).bytes()));
}

TEST_F(RankTest, AnArtifactThatIsSentIsTheFrontendsAndNoLongerHere) {
  std::string received;
  FileLines* back = nullptr;
  FileLines lines([&](const v1::WorkerMessage& message) {
    received += message.upload_chunk().data();
    v1::UploadAnswer answer;
    answer.set_video_id("job");
    answer.set_attempt(2);
    answer.set_name("video.mp4");
    back->artifacts.Receive(answer);
  });
  back = &lines;
  LeadingRank rank(*store_, &lines);
  const v1::RunResult result = Run(rank);
  ASSERT_THAT(FromRpcStatus(result.error()), IsOk());
  EXPECT_EQ(result.artifacts(0).sha256(), Sha256Hex(received));
  EXPECT_EQ(result.artifacts(0).bytes(), static_cast<int64_t>(received.size()));
  EXPECT_THAT(Files(), IsEmpty());
  lines.Abort(absl::AbortedError("the frontend has gone"));
  EXPECT_THAT(FromRpcStatus(Run(rank).error()), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(Files(), IsEmpty());
}

// Writes nine frames of 512x256, whose left half becomes redder and whose right half is green.
absl::Status RenderHalves(ClipSink* sink) {
  ClipInfo info;
  info.width = 512;
  info.height = 256;
  info.num_frames = 9;
  info.frame_rate = 24;
  KINORA_RETURN_IF_ERROR(sink->Begin(info));
  std::vector<uint8_t> rgb(3 * info.width * info.height);
  for (int64_t frame = 0; frame < info.num_frames; ++frame) {
    for (int64_t i = 0; i < info.width * info.height; ++i) {
      const bool left = i % info.width < info.width / 2;
      rgb[3 * i] = static_cast<uint8_t>(left ? 30 * frame : 0);
      rgb[3 * i + 1] = left ? 0 : 200;
    }
    KINORA_RETURN_IF_ERROR(sink->Frames(frame, Tensor(DType::kU8, {1, info.height, info.width, 3}, rgb.data())));
  }
  return sink->End();
}

// `jpeg` is frame 4 of RenderHalves with 256x128 pixels.
void ExpectMiddleOfHalves(const std::string& jpeg) {
  KINORA_ASSERT_OK_AND_ASSIGN(const RgbPicture picture, DecodeJpeg(jpeg, 256));
  ASSERT_EQ(picture.width, 256);
  ASSERT_EQ(picture.height, 128);
  const auto colour_at = [&](int64_t x) {
    const auto pixel = picture.rgb.begin() + 3 * (64 * picture.width + x);
    return std::vector<int>(pixel, pixel + 3);
  };
  const auto near = [](int value) { return testing::AllOf(testing::Ge(value - 6), testing::Le(value + 6)); };
  EXPECT_THAT(colour_at(50), ElementsAre(near(120), near(0), near(0)));
  EXPECT_THAT(colour_at(200), ElementsAre(near(0), near(200), near(0)));
}

TEST_F(RankTest, AThumbnailIsAnArtifactBehindTheClip) {
  model_.run = [](ClipSink* sink, FakeModel::Report) { return RenderHalves(sink); };
  run_.mutable_output()->set_thumbnail(true);
  const v1::RunResult result = Lead();
  ASSERT_THAT(FromRpcStatus(result.error()), IsOk());
  ASSERT_EQ(result.artifacts_size(), 2);
  EXPECT_EQ(result.artifacts(0).id(), "video.mp4");
  EXPECT_EQ(result.artifacts(1).id(), "thumbnail.jpg");
  EXPECT_EQ(result.artifacts(1).media_type(), "image/jpeg");
  const std::string jpeg = ReadFile(store_->root() + "/job/2/thumbnail.jpg");
  EXPECT_EQ(result.artifacts(1).bytes(), static_cast<int64_t>(jpeg.size()));
  EXPECT_EQ(result.artifacts(1).sha256(), Sha256Hex(jpeg));
  ExpectMiddleOfHalves(jpeg);
  const std::string clip = ReadFile(store_->root() + "/job/2/video.mp4");
  run_.mutable_output()->set_thumbnail(false);
  EXPECT_EQ(Lead().artifacts_size(), 1);
  EXPECT_EQ(ReadFile(store_->root() + "/job/2/video.mp4"), clip);  // the thumbnail changes nothing of it
}

TEST_F(RankTest, AThumbnailIsSentToAFrontendElsewhere) {
  model_.run = [](ClipSink* sink, FakeModel::Report) { return RenderHalves(sink); };
  run_.mutable_output()->set_thumbnail(true);
  std::map<std::string, std::string> received;  // by name
  FileLines* back = nullptr;
  FileLines lines([&](const v1::WorkerMessage& message) {
    received[message.upload_chunk().name()] += message.upload_chunk().data();
    v1::UploadAnswer answer;
    answer.set_video_id("job");
    answer.set_attempt(2);
    answer.set_name(message.upload_chunk().name());
    back->artifacts.Receive(answer);
  });
  back = &lines;
  LeadingRank rank(*store_, &lines);
  const v1::RunResult result = Run(rank);
  ASSERT_THAT(FromRpcStatus(result.error()), IsOk());
  ASSERT_EQ(result.artifacts_size(), 2);
  EXPECT_EQ(result.artifacts(1).sha256(), Sha256Hex(received["thumbnail.jpg"]));
  ExpectMiddleOfHalves(received["thumbnail.jpg"]);
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(RankTest, ASoundHasNoThumbnail) {
  run_.mutable_generation()->set_audio_only(true);
  run_.mutable_output()->set_thumbnail(true);
  FollowingRank follower;
  for (const v1::RunResult& result : {Lead(), Run(follower)}) {
    EXPECT_THAT(FromRpcStatus(result.error()),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("thumbnail: audio_only generates no picture")));
  }
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(RankTest, MarksAreOfTheRunAndInOrder) {
  Lead();
  std::vector<std::string> said;
  for (const v1::WorkerMessage& message : sent_) {
    if (message.has_resolved()) said.push_back("resolved " + message.resolved().resolved().precision());
    if (message.has_stage()) {
      EXPECT_EQ(message.stage().attempt(), 2);
      said.push_back(
          absl::StrCat(std::string(StageOf(message.stage()).name()), " of ", message.stage().expected_seconds(), " s"));
    }
    if (message.has_step()) {
      EXPECT_EQ(message.step().video_id(), "job");
      said.push_back(absl::StrCat("step ", message.step().step(), " of ", message.step().total_steps()));
    }
  }
  EXPECT_THAT(said, ElementsAre("resolved f32", "denoise of 24 s", "step 1 of 2", "step 2 of 2", "finalize of 0 s"));
  EXPECT_EQ(units_done_, 4);  // seen by the watchdog: a stage, two steps, another stage
}

TEST_F(RankTest, MarksSayHowMuchIsDoneAndHowLongTheRestTakes) {
  model_.run = [this](ClipSink* sink, FakeModel::Report report) {
    return FakeModel::Render(sink, [&](const Progress& progress) {
      if (progress.step > 0) clock_.Advance(absl::Seconds(6));  // as expected
      return report(progress);
    });
  };
  ASSERT_THAT(FromRpcStatus(Lead().error()), IsOk());
  std::vector<std::string> said;
  for (const v1::WorkerMessage& message : sent_) {
    const auto tell = [&](const auto& mark) {
      said.push_back(absl::StrCat(mark.fraction(), ", ", mark.remaining_seconds(), " s"));
    };
    if (message.has_stage()) tell(message.stage());
    if (message.has_step()) tell(message.step());
  }
  EXPECT_THAT(said, ElementsAre("0, 12 s", "0.5, 6 s", "1, 0 s", "1, 0 s"));
}

TEST_F(RankTest, ACancelEndsTheRunAtItsNextStepAndLeavesNothing) {
  model_.run = [this](ClipSink* sink, FakeModel::Report report) {
    cancelled_ = true;
    return FakeModel::Render(sink, report);
  };
  const v1::RunResult result = Lead();
  EXPECT_THAT(FromRpcStatus(result.error()), StatusIs(absl::StatusCode::kCancelled, HasSubstr("cancelled")));
  EXPECT_EQ(units_done_, 1);
  EXPECT_THAT(Files(), IsEmpty());
}

// A job accepted while no group was up fails with the error that its rejection would have returned.
TEST_F(RankTest, ARunThatDoesNotFitEndsAsIfItHadBeenRefused) {
  model_.run = [](ClipSink*, FakeModel::Report) { return absl::ResourceExhaustedError("more than is reserved"); };
  EXPECT_THAT(FromRpcStatus(Lead().error()), StatusIs(absl::StatusCode::kResourceExhausted));  // another cause
  model_.fits = false;
  const absl::Status status = FromRpcStatus(Lead().error());
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("generation.num_frames")));
  EXPECT_EQ(ErrorReason(status), "SHAPE_TOO_LARGE");
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(RankTest, AFailureOfTheModelIsTheOutcomeAndLeavesNothing) {
  model_.run = [](ClipSink* sink, FakeModel::Report report) {
    const absl::Status begun = FakeModel::Render(sink, report);
    return begun.ok() ? absl::InternalError("frame 0 holds pixels that are not numbers") : begun;
  };
  const v1::RunResult result = Lead();
  EXPECT_THAT(FromRpcStatus(result.error()), StatusIs(absl::StatusCode::kInternal, HasSubstr("frame 0")));
  EXPECT_EQ(result.usage().peak_device_bytes(), 1000);
  EXPECT_EQ(result.step_reached(), 2);
  EXPECT_THAT(result.artifacts(), IsEmpty());
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(RankTest, WantOfMemoryNamesTheStage) {
  model_.run = [](ClipSink*, FakeModel::Report report) -> absl::Status {
    EXPECT_THAT(report({.stage = {StageKind::kEncode}}), IsOk());
    throw std::bad_alloc();
  };
  EXPECT_THAT(FromRpcStatus(Lead().error()), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("encode")));
}

TEST_F(RankTest, ARequestThatTheModelRefusesEndsBeforeAnythingIsSaidOrWritten) {
  run_.mutable_generation()->clear_prompt();
  EXPECT_THAT(FromRpcStatus(Lead().error()), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("prompt")));
  EXPECT_THAT(sent_, IsEmpty());
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(RankTest, AFullDiskIsNamedByItsReasonAndWithoutFolders) {
  const std::string disk = directory_.File("disk");
  std::filesystem::create_directory(disk);
  const auto result = OnSmallDisk(disk, 64 << 10, [&]() -> std::string {
    auto store = DirectoryArtifactStore::At(disk + "/artifacts");
    if (!store.ok()) return store.status().ToString();
    store_ = *std::move(store);
    std::ofstream(disk + "/filler") << std::string(128 << 10, 'x') << std::flush;
    const absl::Status status = FromRpcStatus(Lead().error());
    if (!absl::IsResourceExhausted(status)) return status.ToString();
    if (status.ToString().find("DISK_FULL") == std::string::npos) return status.ToString();
    if (std::string(status.message()).find(disk) != std::string::npos) return std::string(status.message());
    std::filesystem::remove(disk + "/filler");
    return FromRpcStatus(Lead().error()).ok() ? "" : "the next run fails too";
  });
  if (result == SmallDiskResult::kNotPermitted) GTEST_SKIP() << "no mount namespaces here";
  EXPECT_EQ(result, SmallDiskResult::kPassed);
}

TEST_F(RankTest, AFollowingRankHasNoSinkSaysNothingAndWritesNothing) {
  bool ran = false;
  model_.run = [&](ClipSink* sink, FakeModel::Report) {
    EXPECT_EQ(sink, nullptr);
    ran = true;
    return absl::OkStatus();
  };
  cancelled_ = true;  // only rank 0 acts on it, for all ranks
  FollowingRank rank;
  const v1::RunResult result = Run(rank);
  EXPECT_TRUE(ran);
  EXPECT_THAT(FromRpcStatus(result.error()), IsOk());
  EXPECT_EQ(result.video_id(), "job");
  EXPECT_THAT(result.artifacts(), IsEmpty());
  EXPECT_THAT(sent_, IsEmpty());
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(RankTest, AFollowingRankThatEndsWithTheOthersSaysHow) {
  model_.run = [](ClipSink*, FakeModel::Report) { return absl::CancelledError("rank 0 ended the run"); };
  FollowingRank rank;
  EXPECT_THAT(FromRpcStatus(Run(rank).error()), StatusIs(absl::StatusCode::kCancelled, HasSubstr("rank 0")));
  model_.run = [](ClipSink*, FakeModel::Report) -> absl::Status { throw std::bad_alloc(); };
  EXPECT_THAT(FromRpcStatus(Run(rank).error()), StatusIs(absl::StatusCode::kAborted, HasSubstr("memory")));
}

TEST_F(RankTest, RankZeroLeads) {
  JoinRendezvous alone([](const v1::WorkerMessage&) {});
  AbortSignal lost;
  const auto rank = [&](int number) {
    return MakeRank({.rank = number, .world_size = 2, .rendezvous = alone, .lost = lost}, *store_, nullptr,
                    absl::Seconds(30));
  };
  EXPECT_NE(dynamic_cast<LeadingRank*>(rank(0).get()), nullptr);
  EXPECT_NE(dynamic_cast<FollowingRank*>(rank(1).get()), nullptr);
}

TEST_F(RankTest, WorkThatIsNoStepIsProgressAndHearsACancel) {
  absl::Status heard;
  model_.run_observed = [&](RunObserver& observer) {
    const int64_t before = units_done_;
    heard = observer.OnWork();
    EXPECT_EQ(units_done_, before + 1);
    cancelled_ = true;
    return observer.OnWork();
  };
  EXPECT_THAT(FromRpcStatus(Lead().error()), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(heard, IsOk());
}

class RunWithInputs : public RankTest {
 protected:
  void SetUp() override {
    RankTest::SetUp();
    std::filesystem::create_directory(store_->root() + "/inputs");
    run_.mutable_generation()->set_seed(1);
  }
  // Refers to the image in the run's first condition.
  void NameImage(const std::string& bytes) {
    const std::string id = Sha256Hex(bytes);
    run_.mutable_generation()->clear_conditions();
    run_.mutable_generation()->add_conditions()->mutable_image()->set_input_id(id);
    (*run_.mutable_input_paths())[id] = "inputs/" + id;
    WriteFile(store_->root() + "/inputs/" + id, bytes);
  }
  absl::Status LeadInto(FileLines* lines = nullptr) {
    LeadingRank rank(*store_, lines, KINORA_DECODE_BINARY);
    return FromRpcStatus(Run(rank).error());
  }
};

TEST_F(RunWithInputs, ReadsThemBeforeItsFirstStage) {
  NameImage(ReadFile(absl::StrCat(KINORA_SOURCE_DIR, "/tests/server/decode/data/camera.png")));
  std::shared_ptr<const PixelClip> pixels;
  model_.run_request = [&](const GenerationRequest& request) { pixels = request.conditions[0].pixels; };
  ASSERT_THAT(LeadInto(), IsOk());
  ASSERT_NE(pixels, nullptr);
  EXPECT_EQ(pixels->frames, 1);
  EXPECT_EQ(std::ssize(pixels->rgb), pixels->height * pixels->width * 3);
  EXPECT_EQ(sent_.at(0).stage().stage(), v1::STAGE_READ_INPUTS);
  EXPECT_TRUE(sent_.at(1).has_resolved());
  EXPECT_GT(units_done_, 3);
}

TEST_F(RunWithInputs, ADamagedOneEndsTheRunAndNotTheWorker) {
  NameImage("\x89PNG\r\n\x1a\n and no more of it");
  const std::string id = run_.generation().conditions(0).image().input_id();
  EXPECT_THAT(LeadInto(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("input " + id + ": ")));
  run_.mutable_generation()->clear_conditions();
  EXPECT_THAT(LeadInto(), IsOk());
}

TEST_F(RunWithInputs, OneThatIsNotWhatWasUploadedIsTold) {
  NameImage("\x89PNG\r\n\x1a\n");
  const std::string id = run_.generation().conditions(0).image().input_id();
  WriteFile(store_->root() + "/inputs/" + id, "\x89PNG\r\n\x1a\n another");
  EXPECT_THAT(LeadInto(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("differs from the upload")));
  (*run_.mutable_input_paths())[id] = "../" + id;
  EXPECT_THAT(LeadInto(), StatusIs(absl::StatusCode::kInternal, HasSubstr("does not give its location")));
}

TEST_F(RunWithInputs, AWorkerWithoutTheFrontendsDirectoryIsSentThem) {
  std::string image = ReadFile(absl::StrCat(KINORA_SOURCE_DIR, "/tests/server/decode/data/camera.png"));
  std::vector<uint8_t> pixels;
  model_.run_request = [&](const GenerationRequest& request) { pixels = request.conditions[0].pixels->rgb; };
  NameImage(image);
  ASSERT_THAT(LeadInto(), IsOk());
  const std::vector<uint8_t> from_the_directory = std::exchange(pixels, {});
  std::filesystem::remove_all(store_->root() + "/inputs");
  FileLines* back = nullptr;
  FileLines lines([&](const v1::WorkerMessage& message) {
    if (!message.has_input_fetch()) return back->Abort(absl::AbortedError("no artifact is taken here"));
    v1::InputPiece piece;
    piece.set_video_id(message.input_fetch().video_id());
    piece.set_attempt(message.input_fetch().attempt());
    piece.set_input_id(message.input_fetch().input_id());
    piece.set_data(image);
    piece.set_last(true);
    back->inputs.Receive(piece);
  });
  back = &lines;
  image.back() ^= 1;
  EXPECT_THAT(LeadInto(&lines), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("differs from the upload")));
  image.back() ^= 1;
  EXPECT_THAT(LeadInto(&lines), StatusIs(absl::StatusCode::kAborted, HasSubstr("no artifact is taken here")));
  EXPECT_FALSE(pixels.empty());
  EXPECT_EQ(pixels, from_the_directory);
}

TEST_F(RunWithInputs, ACancelEndsTheReading) {
  NameImage(ReadFile(absl::StrCat(KINORA_SOURCE_DIR, "/tests/server/decode/data/camera.png")));
  cancelled_ = true;
  EXPECT_THAT(LeadInto(), StatusIs(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace kinora
