// Runs of the tiny model that are stopped at a step and continued by a model that has just been loaded: the clip's file
// is that of a run that was never stopped, and if anything that shapes it has changed, the run begins anew and says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <cstdlib>
#include <filesystem>
#include <functional>

#include "absl/strings/str_cat.h"
#include "server/common/directory_artifact_store.h"
#include "server/common/sha256.h"
#include "server/common/stage_conversion.h"
#include "server/worker/join_rendezvous.h"
#include "server/worker/pipeline_model.h"
#include "server/worker/rank.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct WorkerOptions {
  std::string ranks{}, precision = "bf16";
  int threads = 1;
  bool untiled_decode = false;
};

class ResumedRunTest : public testing::Test {
 protected:
  static constexpr int kSteps = 4;

  static void SetUpTestSuite() {
    rendezvous_ = new JoinRendezvous([](const v1::WorkerMessage&) {});
    lost_ = new AbortSignal;
    registry_ = new prometheus::Registry;
    metrics_ = new WorkerMetrics(*registry_);
    KINORA_ASSERT_OK_AND_ASSIGN(auto first, Load({}));
    KINORA_ASSERT_OK_AND_ASSIGN(auto fresh, Load({}));
    first_ = first.release();
    fresh_ = fresh.release();
  }
  static void TearDownTestSuite() {
    delete first_;
    delete fresh_;
    delete metrics_;
    delete registry_;
    delete lost_;
    delete rendezvous_;
  }
  static absl::StatusOr<std::unique_ptr<Model>> Load(const WorkerOptions& options) {
    v1::WorkerConfig config;
    config.add_model(KINORA_SOURCE_DIR "/models/tiny/ltx-2.3-tiny-dev.safetensors");
    config.add_model("text_encoder=" KINORA_SOURCE_DIR "/models/tiny/gemma");
    config.set_precision(options.precision);
    config.set_device("cpu");
    config.set_threads(options.threads);
    config.set_memory_share(1);
    config.set_ranks(options.ranks);
    config.set_untiled_decode(options.untiled_decode);
    return PipelineModel::Load(config, {.rendezvous = *rendezvous_, .lost = *lost_}, *metrics_, [] {});
  }

  void SetUp() override {
    KINORA_ASSERT_OK_AND_ASSIGN(store_, DirectoryArtifactStore::At(directory_.File("artifacts")));
    run_.set_video_id("video");
    v1::Generation& g = *run_.mutable_generation();
    g = first_->Describe().model().defaults();
    g.set_prompt("a boat");
    g.set_width(64);
    g.set_height(64);
    g.set_num_frames(9);
    g.set_num_inference_steps(kSteps);
    g.set_seed(7);
  }

  // Runs the next attempt of the job.
  v1::RunResult Run(Model& model, absl::Duration interval = absl::ZeroDuration()) {
    run_.set_attempt(run_.attempt() + 1);
    run_.set_artifact_key(absl::StrCat("video/", run_.attempt()));
    cancelled_ = keep_ = false;
    {
      absl::MutexLock lock(&mu_);
      sent_.clear();
    }
    LeadingRank rank(*store_, /*lines=*/nullptr, /*decoder=*/"", interval);
    v1::RunResult result = rank.Run({.model = model,
                                     .metrics = *metrics_,
                                     .send = [this](const v1::WorkerMessage& message) { Send(message); },
                                     .cancelled = cancelled_,
                                     .units_done = units_done_,
                                     .keep_state = &keep_},
                                    run_);
    run_.clear_resume_from();
    run_.clear_input_paths();
    return result;
  }
  // Tells the run to leave once it has reported this progress of its denoising.
  void Send(const v1::WorkerMessage& message) {
    absl::MutexLock lock(&mu_);
    sent_.push_back(message);
    const bool step = message.has_step() && message.step().stage() == v1::STAGE_DENOISE;
    const bool begin = message.has_stage() && message.stage().stage() == v1::STAGE_DENOISE;
    if ((step && message.step().step() == leave_after_) || (begin && leave_after_ == 0)) {
      keep_ = true;
      cancelled_ = true;
      leave_after_ = -1;
    }
  }
  void SetLeaveAfter(int step) {
    absl::MutexLock lock(&mu_);
    leave_after_ = step;
  }
  std::vector<v1::WorkerMessage> Sent() {
    absl::MutexLock lock(&mu_);
    return sent_;
  }
  std::vector<v1::ResumePoint> Points() {
    std::vector<v1::ResumePoint> points;
    for (const v1::WorkerMessage& message : Sent()) {
      if (message.has_resume()) points.push_back(message.resume().point());
    }
    return points;
  }
  v1::Resolved Resolved() {
    for (const v1::WorkerMessage& message : Sent()) {
      if (message.has_resolved()) return message.resolved().resolved();
    }
    ADD_FAILURE() << "nothing was resolved";
    return {};
  }
  std::string Clip() const { return ReadFile(absl::StrCat(store_->root(), "/", run_.artifact_key(), "/video.mp4")); }
  // Has the next attempt continue from a point of the last one.
  void ResumeFrom(const v1::ResumePoint& point) {
    *run_.mutable_resume_from() = point;
    (*run_.mutable_input_paths())["resume"] = absl::StrCat(run_.artifact_key(), "/", point.id());
  }
  std::string PointFile() const { return absl::StrCat(store_->root(), "/", run_.input_paths().at("resume")); }
  // Stops a run so that its state after a step is stored, and has the next attempt continue there.
  void Stop(Model& model, int after) {
    SetLeaveAfter(after);
    const v1::RunResult result = Run(model);
    EXPECT_EQ(result.error().code(), static_cast<int>(absl::StatusCode::kCancelled));
    const std::vector<v1::ResumePoint> points = Points();
    ASSERT_EQ(points.size(), 1u);
    EXPECT_GT(points[0].step(), after);
    ResumeFrom(points[0]);
  }
  std::string Whole() {
    EXPECT_EQ(Run(*first_).error().message(), "");
    return Clip();
  }
  // Runs the attempt that was to continue and expects it to begin anew. Returns the reason.
  std::string BeginsAnew(Model& model) {
    EXPECT_EQ(Run(model).error().message(), "");
    const v1::Resolved resolved = Resolved();
    EXPECT_EQ(resolved.resumed_from_step(), 0);
    EXPECT_EQ(resolved.resumed_from_stage(), "");
    EXPECT_THAT(StepsOf(Sent()), testing::ElementsAre(1, 2, 3, 4));
    return resolved.not_resumed_because();
  }
  static std::vector<int> StepsOf(const std::vector<v1::WorkerMessage>& sent) {
    std::vector<int> steps;
    for (const v1::WorkerMessage& message : sent) {
      if (message.has_step() && message.step().stage() == v1::STAGE_DENOISE) steps.push_back(message.step().step());
    }
    return steps;
  }

  static JoinRendezvous* rendezvous_;
  static AbortSignal* lost_;
  static prometheus::Registry* registry_;
  static WorkerMetrics* metrics_;
  static Model *first_, *fresh_;

  TemporaryDirectory directory_;
  std::unique_ptr<DirectoryArtifactStore> store_;
  v1::Run run_;
  std::atomic<bool> cancelled_ = false, keep_ = false;
  std::atomic<int64_t> units_done_ = 0;
  absl::Mutex mu_;
  int leave_after_ ABSL_GUARDED_BY(mu_) = -1;
  std::vector<v1::WorkerMessage> sent_ ABSL_GUARDED_BY(mu_);
};
JoinRendezvous* ResumedRunTest::rendezvous_;
AbortSignal* ResumedRunTest::lost_;
prometheus::Registry* ResumedRunTest::registry_;
WorkerMetrics* ResumedRunTest::metrics_;
Model *ResumedRunTest::first_, *ResumedRunTest::fresh_;

TEST_F(ResumedRunTest, AFreshModelContinuesWhereTheStoppedRunWasAndMakesTheSameFile) {
  const std::string whole = Whole();
  EXPECT_EQ(Resolved().resumed_from_stage() + Resolved().not_resumed_because(), "");
  for (int after = 0; after + 1 < kSteps; ++after) {
    ASSERT_NO_FATAL_FAILURE(Stop(*first_, after));
    const int step = run_.resume_from().step();
    const v1::RunResult result = Run(*fresh_);
    ASSERT_EQ(result.error().message(), "");
    EXPECT_EQ(Resolved().resumed_from_step(), step);
    EXPECT_EQ(Resolved().resumed_from_stage(), "denoise");
    EXPECT_EQ(Resolved().not_resumed_because(), "");
    EXPECT_TRUE(Clip() == whole) << "after step " << step;
    std::vector<int> rest;
    for (int next = step + 1; next <= kSteps; ++next) rest.push_back(next);
    EXPECT_EQ(StepsOf(Sent()), rest);
  }
}

// A run that stores a point after each step, as fast as they can be stored.
TEST_F(ResumedRunTest, EveryPointOfAnUndisturbedRunWillDo) {
  ASSERT_EQ(Run(*first_, absl::Nanoseconds(1)).error().message(), "");
  const std::string whole = Clip(), key = run_.artifact_key();
  const std::vector<v1::ResumePoint> points = Points();
  ASSERT_FALSE(points.empty());
  for (const v1::ResumePoint& point : points) {
    run_.set_artifact_key(key);
    ResumeFrom(point);
    ASSERT_EQ(Run(*fresh_).error().message(), "");
    EXPECT_EQ(Resolved().resumed_from_step(), point.step());
    EXPECT_TRUE(Clip() == whole) << "from step " << point.step();
  }
}

TEST_F(ResumedRunTest, TheProgressOfTheWholeRunGoesOnAndItsPartialStageHasNoSpeed) {
  ASSERT_NO_FATAL_FAILURE(Stop(*first_, 1));
  const double done = run_.resume_from().fraction();
  EXPECT_GT(done, 0);
  const v1::RunResult result = Run(*fresh_);
  double last = 0;
  for (const v1::WorkerMessage& message : Sent()) {
    if (!message.has_stage() && !message.has_step()) continue;
    const double fraction = message.has_stage() ? message.stage().fraction() : message.step().fraction();
    EXPECT_GE(fraction, last);
    EXPECT_GT(fraction, 0);
    last = fraction;
  }
  EXPECT_GT(last, done);
  EXPECT_TRUE(result.usage().stage_seconds().contains("denoise"));
  int partial = 0;
  for (const v1::StageSpeed& stage : result.speed().stages()) {
    partial += stage.kind() == "denoise" ? 1 : 0;
    EXPECT_EQ(stage.seconds() > 0, stage.kind() != "denoise") << stage.kind();
  }
  EXPECT_EQ(partial, 1);
}

TEST_F(ResumedRunTest, ACancelThatDoesNotKeepTheStateStoresNone) {
  SetLeaveAfter(1);
  const auto before = metrics_->resume_points_total.Add({{"outcome", "stored"}}).Value();
  LeadingRank rank(*store_);
  run_.set_artifact_key("video/9");
  const v1::RunResult result = rank.Run({.model = *first_,
                                         .metrics = *metrics_,
                                         .send = [this](const v1::WorkerMessage& message) { Send(message); },
                                         .cancelled = cancelled_,
                                         .units_done = units_done_},
                                        run_);
  EXPECT_EQ(result.error().code(), static_cast<int>(absl::StatusCode::kCancelled));
  EXPECT_EQ(metrics_->resume_points_total.Add({{"outcome", "stored"}}).Value(), before);
}

TEST_F(ResumedRunTest, RanksContinueTogetherAndMakeTheFileOfOneRank) {
  const std::string whole = Whole();
  for (const char* ranks : {"tokens=2", "guidance=2"}) {
    KINORA_ASSERT_OK_AND_ASSIGN(const auto group, Load({.ranks = ranks}));
    KINORA_ASSERT_OK_AND_ASSIGN(const auto fresh, Load({.ranks = ranks}));
    ASSERT_NO_FATAL_FAILURE(Stop(*group, 1));
    ASSERT_EQ(Run(*fresh).error().message(), "");
    EXPECT_GT(Resolved().resumed_from_step(), 1);
    EXPECT_TRUE(Clip() == whole) << ranks;
  }
}

// The fingerprint leaves out the number of threads.
TEST_F(ResumedRunTest, TheNumberOfThreadsDoesNotChangeABit) {
  const std::string whole = Whole();
  ASSERT_NO_FATAL_FAILURE(Stop(*first_, 1));
  KINORA_ASSERT_OK_AND_ASSIGN(const auto threads, Load({.threads = 3}));
  ASSERT_EQ(Run(*threads).error().message(), "");
  EXPECT_GT(Resolved().resumed_from_step(), 1);
  EXPECT_TRUE(Clip() == whole);
}

TEST_F(ResumedRunTest, AnotherMeshOrPrecisionBeginsAnew) {
  const std::string whole = Whole();
  ASSERT_NO_FATAL_FAILURE(Stop(*first_, 1));
  KINORA_ASSERT_OK_AND_ASSIGN(const auto two, Load({.ranks = "tokens=2"}));
  EXPECT_EQ(BeginsAnew(*two), "the mesh was none and is tokens=2 now");
  EXPECT_TRUE(Clip() == whole);
  ASSERT_NO_FATAL_FAILURE(Stop(*two, 1));
  EXPECT_EQ(BeginsAnew(*first_), "the mesh was tokens=2 and is none now");
  ASSERT_NO_FATAL_FAILURE(Stop(*first_, 1));
  KINORA_ASSERT_OK_AND_ASSIGN(const auto exact, Load({.precision = "f32"}));
  EXPECT_EQ(BeginsAnew(*exact), "the precision was bf16 and is f32 now");
}

TEST_F(ResumedRunTest, AnotherRequestBeginsAnew) {
  ASSERT_NO_FATAL_FAILURE(Stop(*first_, 1));
  run_.mutable_generation()->set_seed(8);
  EXPECT_THAT(BeginsAnew(*fresh_), StartsWith("the request was sha256:"));
}

TEST_F(ResumedRunTest, PreviewsAndThumbnailsDoNotMatter) {
  ASSERT_NO_FATAL_FAILURE(Stop(*first_, 1));
  ASSERT_EQ(setenv("XDG_CACHE_HOME", directory_.File("cache").c_str(), 1), 0);  // for the previews' map
  run_.mutable_output()->set_preview_every_steps(1);
  run_.mutable_output()->set_thumbnail(true);
  ASSERT_EQ(Run(*fresh_).error().message(), "");
  EXPECT_GT(Resolved().resumed_from_step(), 1);
}

TEST_F(ResumedRunTest, AFileThatIsDamagedOrMissingBeginsAnew) {
  const std::string whole = Whole();
  const auto damaged = [&](const std::function<void(std::string & bytes)>& damage) {
    Stop(*first_, 1);
    std::string bytes = ReadFile(PointFile());
    damage(bytes);
    WriteFile(PointFile(), bytes);
    const std::string why = BeginsAnew(*fresh_);
    EXPECT_TRUE(Clip() == whole) << why;
    return why;
  };
  EXPECT_THAT(damaged([](std::string& bytes) { bytes.resize(bytes.size() / 2); }),
              StartsWith("the stored state is damaged: it has "));
  EXPECT_EQ(damaged([](std::string& bytes) { bytes.back() = static_cast<char>(bytes.back() ^ 1); }),
            "the stored state is damaged: its bytes are not those that were stored");
  EXPECT_THAT(damaged([](std::string& bytes) { bytes.clear(); }), StartsWith("the stored state is damaged: it has 0"));
  Stop(*first_, 1);
  std::filesystem::remove(PointFile());
  EXPECT_EQ(BeginsAnew(*fresh_), "the stored state cannot be read: resume-1: cannot open: No such file or directory");
}

// Files with the right digest that no run has stored.
TEST_F(ResumedRunTest, AFileThatIsNoStateOfThisRunBeginsAnew) {
  const auto other = [&](const std::function<void(std::string & bytes, v1::ResumePoint & point)>& change) {
    Stop(*first_, 1);
    std::string bytes = ReadFile(PointFile());
    change(bytes, *run_.mutable_resume_from());
    WriteFile(PointFile(), bytes);
    run_.mutable_resume_from()->set_bytes(static_cast<int64_t>(bytes.size()));
    run_.mutable_resume_from()->set_sha256(Sha256Hex(bytes));
    return BeginsAnew(*fresh_);
  };
  EXPECT_THAT(other([](std::string& bytes, auto&) { bytes = "nothing"; }), HasSubstr("resume file: 7 bytes"));
  EXPECT_THAT(other([](std::string& bytes, auto&) { bytes.resize(64 << 20); }),
              HasSubstr("it has 67108864 bytes, but at most"));
  EXPECT_THAT(other([](std::string& bytes, auto&) { bytes.pop_back(); }), HasSubstr("resume file: tensor "));
  EXPECT_THAT(other([](auto&, v1::ResumePoint& point) { point.set_step(point.step() + 1); }),
              HasSubstr("the stored state is that of step "));
  const auto rename = [](std::string& bytes, const std::string& from, const std::string& to) {
    bytes.replace(bytes.find(from), from.size(), to);
  };
  EXPECT_THAT(other([&](std::string& bytes, auto&) { rename(bytes, "audio.z", "audio.y"); }),
              HasSubstr("audio.z is missing"));
  EXPECT_THAT(other([&](std::string& bytes, auto&) { rename(bytes, "\"stage\":\"1\"", "\"stage\":\"9\""); }),
              HasSubstr("stage 9 of the plan does not denoise"));
}

TEST_F(ResumedRunTest, ARunWithoutALocationOfItsStateBeginsAnew) {
  Stop(*first_, 1);
  run_.clear_input_paths();
  EXPECT_THAT(BeginsAnew(*fresh_), HasSubstr("the run does not give its location"));
}

}  // namespace
}  // namespace kinora
