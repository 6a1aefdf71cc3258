// Measures what a resume point costs a run at the state sizes of released models, on the CPU: the real keeper takes a
// state between two steps and stores it in a directory.
//   resume_bench [POINTS = 25] [WIDTH = 1920] [HEIGHT = 1088] [FRAMES = 121] [INTERVAL = 30]
// Prints one line per sampler: the size of the state, medians of the wall and processor seconds for which the step
// waits, the processor seconds of the whole point with its thread, and both as shares of the interval: a run that takes
// a point every INTERVAL seconds waits for `waits` of its time, and `processor` of one core's time goes to its points.
#include <time.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "engine/pipeline/resume_file.h"
#include "server/common/directory_artifact_store.h"
#include "server/common/metrics.h"
#include "server/worker/resume_keeper.h"
#include "tests/bench/measure.h"
#include "tests/bench/or_die.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_model.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

constexpr int64_t kChannels = 128, kSoundRowsPerSecond = 25, kFps = 24;

struct Options {
  int points = 25;
  int64_t width = 1920, height = 1088, frames = 121;
  double interval = 30;
};

// A model whose points have the file of a real one, without a fingerprint.
class FileModel : public FakeModel {
 public:
  std::string ResumeFileOf(const PreparedRun&, ResumePoint&& point) const override {
    return ToBytes({.point = std::move(point), .fingerprint = {}});
  }
};

double ThreadSeconds() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

// The tensors that a stage carries from one step to the next.
class State {
 public:
  State(const Options& options, const std::vector<std::string>& names) {
    const int64_t video = (options.width / 32) * (options.height / 32) * ((options.frames - 1) / 8 + 1);
    const int64_t sound = options.frames * kSoundRowsPerSecond / kFps;
    for (const std::string& name : names) {
      for (const auto& [modality, rows] : {std::pair{"video.", video}, std::pair{"audio.", sound}}) {
        const int64_t bytes = rows * kChannels * int64_t{sizeof(float)};
        memory_.push_back(OrDie(Buffer::Allocate(bytes)));
        float* const values = static_cast<float*>(memory_.back().data());
        for (int64_t i = 0; i < rows * kChannels; ++i) values[i] = static_cast<float>(i % 251) / 251;
        carried_.push_back({modality + name, Tensor(DType::kF32, {rows, kChannels}, values)});
        bytes_ += bytes;
      }
    }
  }
  const CarriedTensors& carried() const { return carried_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::vector<Buffer> memory_;
  CarriedTensors carried_;
  int64_t bytes_ = 0;
};

// A run whose keeper takes a point after each step. Its clock passes an interval between two steps.
class Run {
 public:
  explicit Run(Exec& exec) : exec_(exec) {
    run_.set_video_id("job");
    run_.set_artifact_key("job/1");
  }
  // One step: the wait, and the whole point.
  std::pair<Times, Times> Step(const State& state) {
    absl::Notification stored;
    stored_ = &stored;
    clock_.Advance(absl::Seconds(30));
    const Progress progress{.stage = {StageKind::kDenoise}, .step = ++step_, .total_steps = 1'000'000};
    while (!keeper_.Wants(progress)) std::this_thread::yield();  // it is yet to note that the last point is stored
    const Times before = Now();
    const double thread_before = ThreadSeconds();
    keeper_.Wants(progress);
    ResumePoint point{.stage = 0, .step = step_};
    const absl::Status taken = TakeValues(exec_, state.carried(), point);
    KINORA_CHECK(taken.ok()) << taken.ToString();
    keeper_.Keep(std::move(point));
    const Times waited{Now().wall - before.wall, ThreadSeconds() - thread_before};
    stored.WaitForNotification();
    const Times after = Now();
    return {waited, {after.wall - before.wall, after.processor - before.processor}};
  }

 private:
  Exec& exec_;
  TemporaryDirectory directory_;
  prometheus::Registry registry_;
  WorkerMetrics metrics_{registry_};
  FileModel model_;
  FakeClock clock_;
  std::unique_ptr<DirectoryArtifactStore> store_ = OrDie(DirectoryArtifactStore::At(directory_.File("artifacts")));
  v1::Run run_;
  PreparedRun prepared_;
  std::atomic<bool> cancelled_ = false;
  std::atomic<int64_t> units_done_ = 0;
  absl::Notification* stored_ = nullptr;
  int32_t step_ = 0;
  const RunContext context_{.model = model_,
                            .metrics = metrics_,
                            .send = [this](const v1::WorkerMessage&) { stored_->Notify(); },
                            .cancelled = cancelled_,
                            .units_done = units_done_,
                            .steady = clock_};
  ResumeKeeper keeper_{
      context_, run_, prepared_, RunArtifacts{.store = *store_},
      ResumeKeeper::Options{
          .interval = absl::Seconds(30), .begin = clock_.Now(), .fraction = [](const Progress&) { return 0.5; }}};
};

void Report(const char* sampler, const std::vector<std::string>& names, const Options& options, Exec& exec) {
  const State state(options, names);
  std::vector<Times> waits, wholes;
  Run run(exec);
  run.Step(state);  // touches the memory
  for (int i = 0; i < options.points; ++i) {
    const auto [wait, whole] = run.Step(state);
    waits.push_back(wait);
    wholes.push_back(whole);
  }
  const Times wait = Medians(waits), whole = Medians(wholes);
  std::printf("%-8s %8.1f %10.4f %10.4f %11.4f %8.3f%% %9.3f%%\n", sampler, static_cast<double>(state.bytes()) / 1e6,
              wait.wall, wait.processor, whole.processor, 100 * wait.wall / options.interval,
              100 * whole.processor / options.interval);
  std::fflush(stdout);
}

void ReportAll(const Options& options) {
  const auto mesh = Mesh::Single();
  const auto backend = OrDie(OpenBackend("cpu", {.threads = 1}));
  Arena arena = Arena::Dry();  // nothing is allocated
  Exec exec{.backend = *backend, .arena = arena, .host = arena, .mesh = *mesh};
  std::printf("%-8s %8s %10s %10s %11s %9s %10s\n", "sampler", "MB", "wait s", "its cpu s", "point cpu s", "waits",
              "processor");
  Report("euler", {"z"}, options, exec);
  Report("res_2s", {"z", "anchor", "held"}, options, exec);
}

}  // namespace
}  // namespace kinora

int main(int argc, char** argv) {
  kinora::Options options;
  if (argc > 1) options.points = std::atoi(argv[1]);
  if (argc > 2) options.width = std::atoi(argv[2]);
  if (argc > 3) options.height = std::atoi(argv[3]);
  if (argc > 4) options.frames = std::atoi(argv[4]);
  if (argc > 5) options.interval = std::atof(argv[5]);
  kinora::ReportAll(options);
  return 0;
}
