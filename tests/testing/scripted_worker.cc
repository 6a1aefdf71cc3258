// A worker process with a scripted model instead of the engine. Process, protocol, sinks and artifacts are real; the
// model dies, hangs or fails when the prompt says so. For tests of the frontend.
//
// Several workers that are given ranks form a group: they find each other before they are ready, and only rank 0
// renders.
//
// An estimate is 1.5 seconds, plus 100 for each run that the model has been told about. Clips of more than 49 frames do
// not fit, although the model's description allows 97.
//
// Words of the prompt:
//   steps=N
//   gate=FIFO: the first step lasts until a test writes to FIFO (tests/e2e/gate.h)
//   crash_at=STEP: the process is killed; with once=FILE only if FILE does not exist yet
//   hang_at=STEP: never returns
//   fail_at=STEP: fails with RESOURCE_EXHAUSTED
//   alone=RANK: only that rank fails; the others wait until they are told to abort
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "engine/base/status_macros.h"
#include "engine/request/request_warnings.h"
#include "engine/tensor/tensor.h"
#include "server/request/model_conversion.h"
#include "server/request/request_conversion.h"
#include "server/worker/worker_process.h"
#include "tests/request/descriptions.h"

namespace kinora {
namespace {

class Script {
 public:
  explicit Script(const std::string& prompt) {
    for (const absl::string_view word : absl::StrSplit(prompt, ' ')) {
      const std::pair<std::string, std::string> parts = absl::StrSplit(word, absl::MaxSplits('=', 1));
      words_[parts.first] = parts.second;
    }
  }
  int Number(const std::string& name, int otherwise) const {
    const auto it = words_.find(name);
    return it == words_.end() ? otherwise : std::atoi(it->second.c_str());
  }
  std::string Text(const std::string& name) const {
    const auto it = words_.find(name);
    return it == words_.end() ? "" : it->second;
  }

 private:
  std::map<std::string, std::string> words_;
};

absl::Status ActAt(const Script& script, int step) {
  if (step == script.Number("crash_at", 0)) {
    const std::string once = script.Text("once");
    if (once.empty() || access(once.c_str(), F_OK) != 0) {
      if (!once.empty()) std::ofstream(once) << "crashed\n";
      raise(SIGKILL);
    }
  }
  if (step == script.Number("hang_at", 0)) {
    while (true) pause();
  }
  if (step == script.Number("fail_at", 0)) return absl::ResourceExhaustedError("out of memory in denoise");
  return absl::OkStatus();
}

// Waits until the gate opens or the run is cancelled. Calls `report` repeatedly, like a model of many steps.
absl::Status AwaitGate(const std::string& fifo, const std::function<absl::Status()>& report) {
  constexpr int kReportMs = 10;
  pollfd gate = {.fd = open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC), .events = POLLIN, .revents = 0};
  if (gate.fd < 0) return absl::NotFoundError(fifo);
  absl::Status status;
  while (status.ok() && poll(&gate, 1, kReportMs) == 0) status = report();
  close(gate.fd);
  return status;
}

constexpr int kMostFrames = 49;  // limit of the reserved memory; the description allows more

class ScriptedModel : public Model {
 public:
  ScriptedModel(int rank, AbortSignal& lost) : rank_(rank), lost_(lost, [this] { aborted_.Notify(); }) {}
  static absl::StatusOr<std::unique_ptr<Model>> Load(const v1::WorkerConfig&, const RankContext& context,
                                                     WorkerMetrics&, const std::function<void()>&) {
    context.rendezvous.Publish("here", absl::StrCat(context.rank));
    for (int rank = 0; rank < context.world_size; ++rank) {
      if (rank == context.rank) continue;
      KINORA_ASSIGN_OR_RETURN(const std::string said, context.rendezvous.Await(rank, "here", absl::Seconds(30)));
      if (said != absl::StrCat(rank)) return absl::InternalError(absl::StrCat("rank ", rank, " says ", said));
    }
    return std::make_unique<ScriptedModel>(context.rank, context.lost);
  }

  static ModelDescription Description() {
    DescriptionOptions options = Tiny();
    options.kind = "distilled";
    options.max_frames = 97;
    options.max_tokens = 4096;
    return DescribeModel(options);
  }
  static v1::ModelInfo Info() { return ToModelInfo(Description(), "scripted"); }
  v1::Ready Describe() const override {
    v1::Ready ready;
    *ready.mutable_model() = Info();
    ready.set_precision("f32");
    return ready;
  }

  // Ignores inputs.
  absl::StatusOr<PreparedRun> PrepareRun(const v1::Generation& generation, const ReadRequest&, RunObserver&) override {
    return Prepare(generation);
  }
  absl::StatusOr<PreparedRun> Prepare(const v1::Generation& generation) const override {
    PreparedRun run{.generation = generation, .plan = {}};
    run.plan.stages.push_back({.kind = StageKind::kDenoise});
    return run;
  }
  v1::Estimate Estimate(const PreparedRun& run) const override {
    v1::Estimate estimate;
    *estimate.mutable_effective() = run.generation;
    estimate.set_seconds(1.5 + 100 * runs_known_);
    estimate.set_fits(run.generation.num_frames() <= kMostFrames);
    if (estimate.fits()) return estimate;
    estimate.add_problems("it needs 2.00 GiB for activations, 1.00 GiB are reserved");
    estimate.mutable_nearest()->set_width(run.generation.width());
    estimate.mutable_nearest()->set_height(run.generation.height());
    estimate.mutable_nearest()->set_num_frames(kMostFrames);
    return estimate;
  }
  double ExpectedSeconds(const PreparedRun&, Stage stage) const override {
    return stage.kind == StageKind::kDenoise ? 0.009 : 0.001;  // small, so the watchdog's timeout is its minimum
  }
  v1::Resolved Resolve(const PreparedRun& run) const override {
    v1::Resolved resolved;
    const absl::StatusOr<GenerationRequest> request = ToGenerationRequest(run.generation);
    if (request.ok()) {
      for (const std::string& warning : RequestWarnings(Description(), *request)) resolved.add_warnings(warning);
    }
    resolved.set_precision("f32");
    return resolved;
  }

  absl::Status Generate(const PreparedRun& run, ClipSink* sink, RunObserver* observer, v1::Usage& usage) override {
    const v1::Generation& generation = run.generation;
    const Script script(generation.prompt());
    if (const int failing = script.Number("alone", -1); failing >= 0) return FailAlone(failing);
    if (generation.num_frames() > kMostFrames) return absl::ResourceExhaustedError("more than is reserved");
    if (sink == nullptr) return absl::OkStatus();
    const int steps = script.Number("steps", 4);
    for (int step = 0; step <= steps; ++step) {
      if (step > 0) KINORA_RETURN_IF_ERROR(ActAt(script, step));
      const auto report = [&] {
        const Progress progress{.stage = {StageKind::kDenoise}, .step = step, .total_steps = steps};
        return step == 0 ? observer->OnStage(progress) : observer->OnStep(progress, nullptr);
      };
      KINORA_RETURN_IF_ERROR(report());
      if (step == 1 && !script.Text("gate").empty()) KINORA_RETURN_IF_ERROR(AwaitGate(script.Text("gate"), report));
    }
    usage.set_device_seconds(0.5);
    return WriteClip(generation, *sink);
  }
  void Observe(const v1::RunSpeed&) override { ++runs_known_; }
  void Remember(const v1::SpeedHistory& past) override { runs_known_ += past.runs_size(); }

 private:
  absl::Status FailAlone(int failing) {
    if (rank_ == failing) return absl::AbortedError("a rank failed: the device is lost");
    aborted_.WaitForNotification();  // like a rank blocked in a collective
    return absl::AbortedError("the group of ranks was aborted");
  }
  // Writes frames whose grey value is the seed, without sound.
  static absl::Status WriteClip(const v1::Generation& g, ClipSink& sink) {
    ClipInfo info;
    info.width = g.width();
    info.height = g.height();
    info.num_frames = g.num_frames();
    info.frame_rate = g.frame_rate();
    KINORA_RETURN_IF_ERROR(sink.Begin(info));
    std::vector<uint8_t> pixels(3 * info.width * info.height, static_cast<uint8_t>(g.seed()));
    for (int64_t frame = 0; frame < info.num_frames; ++frame) {
      KINORA_RETURN_IF_ERROR(sink.Frames(frame, HostTensor(pixels, info)));
    }
    return sink.End();
  }
  static Tensor HostTensor(std::vector<uint8_t>& pixels, const ClipInfo& info) {
    return Tensor(DType::kU8, {1, info.height, info.width, 3}, pixels.data());
  }

  std::atomic<int> runs_known_ = 0;
  const int rank_;
  absl::Notification aborted_;
  const AbortSignal::Listener lost_;
};

}  // namespace
}  // namespace kinora

int main(int argc, char** argv) {
  const auto check = [](const kinora::v1::WorkerConfig&) { return absl::OkStatus(); };
  const auto describe = [](const kinora::v1::WorkerConfig&) { return kinora::ScriptedModel::Info(); };
  return kinora::RunWorker({argv + 1, argv + argc},
                           {.load = kinora::ScriptedModel::Load, .check = check, .describe = describe});
}
