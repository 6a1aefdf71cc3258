// A model whose behaviour a test defines.
#ifndef KINORA_TESTS_TESTING_FAKE_MODEL_H_
#define KINORA_TESTS_TESTING_FAKE_MODEL_H_

#include <atomic>
#include <functional>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/request/request_conversion.h"
#include "server/worker/model.h"

namespace kinora {

class FakeModel : public Model {
 public:
  using Report = absl::FunctionRef<absl::Status(const Progress&)>;

  v1::Ready Describe() const override {
    v1::Ready ready;
    ready.mutable_model()->set_id("fake");
    return ready;
  }
  absl::StatusOr<PreparedRun> Prepare(const v1::Generation& generation) const override {
    before_prepare();
    if (generation.prompt().empty()) return absl::InvalidArgumentError("prompt: must not be empty");
    PreparedRun run{.generation = generation, .plan = {}};
    run.plan.stages.push_back({.kind = StageKind::kDenoise, .steps = 2});
    return run;
  }
  absl::StatusOr<PreparedRun> PrepareRun(const v1::Generation& generation, const ReadRequest& read,
                                         RunObserver&) override {
    absl::StatusOr<PreparedRun> run = Prepare(generation);
    absl::StatusOr<GenerationRequest> request = ToGenerationRequest(generation);
    if (!run.ok() || !request.ok() || read == nullptr || request->conditions.empty()) return run;
    const absl::Status status = read({}, *request);
    if (!status.ok()) return status;
    run_request(*request);
    run->plan.request = *request;
    return run;
  }
  v1::Estimate Estimate(const PreparedRun& prepared) const override {
    v1::Estimate estimate;
    *estimate.mutable_effective() = prepared.generation;
    estimate.set_seconds(2.5);
    estimate.set_fits(fits);
    if (!fits) estimate.mutable_nearest()->set_num_frames(prepared.generation.num_frames() + 8);
    return estimate;
  }
  v1::Resolved Resolve(const PreparedRun&) const override {
    v1::Resolved resolved;
    resolved.set_precision("f32");
    return resolved;
  }
  double ExpectedSeconds(const PreparedRun&, Stage stage) const override {
    return stage.kind == StageKind::kDenoise ? 12 : 0;
  }
  absl::Status Generate(const PreparedRun&, ClipSink* sink, RunObserver* observer, v1::Usage& usage) override {
    usage.set_device_seconds(3);
    usage.set_peak_device_bytes(1000);
    if (run_observed && observer != nullptr) return run_observed(*observer);
    return run(sink, [observer](const Progress& progress) {
      if (observer == nullptr) return absl::OkStatus();
      return progress.step == 0 ? observer->OnStage(progress) : observer->OnStep(progress, nullptr);
    });
  }
  std::string ResumeFileOf(const PreparedRun&, ResumePoint&& point) const override {
    return absl::StrCat("the state after step ", point.step);
  }
  int64_t MostResumeFileBytes(const PreparedRun&) const override { return 100; }
  // Accepts what ResumeFileOf has returned.
  absl::StatusOr<ResumePoint> ReadResumeFile(const PreparedRun&, std::string_view file) const override {
    const std::string begin = "the state after step ";
    ResumePoint point;
    if (file.substr(0, begin.size()) != begin ||
        !absl::SimpleAtoi(absl::string_view(file.data(), file.size()).substr(begin.size()), &point.step)) {
      return absl::InvalidArgumentError("the fake's state is damaged");
    }
    return point;
  }
  void Observe(const v1::RunSpeed&) override {}
  void Remember(const v1::SpeedHistory&) override {}

  // Reports two steps and writes a clip of one black frame.
  static absl::Status Render(ClipSink* sink, Report on_progress) {
    for (int step = 0; step <= 2; ++step) {
      absl::Status go_on = on_progress({.stage = {StageKind::kDenoise}, .step = step, .total_steps = 2});
      if (!go_on.ok()) return go_on;
    }
    if (sink == nullptr) return absl::OkStatus();
    std::vector<uint8_t> black(3 * 32 * 32);
    ClipInfo info;
    info.width = info.height = 32;
    info.num_frames = 1;
    info.frame_rate = 24;
    absl::Status status = sink->Begin(info);
    if (status.ok()) status = sink->Frames(0, Tensor(DType::kU8, {1, 32, 32, 3}, black.data()));
    return status.ok() ? sink->End() : status;
  }

  std::function<absl::Status(ClipSink* sink, Report on_progress)> run = Render;
  std::function<absl::Status(RunObserver&)> run_observed;  // replaces `run` on the rank that has an observer
  std::function<void()> before_prepare = [] {};
  std::function<void(const GenerationRequest&)> run_request = [](const auto&) {};  // called for a run with inputs
  bool fits = true;                                                                // result of an estimate
};

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_FAKE_MODEL_H_
