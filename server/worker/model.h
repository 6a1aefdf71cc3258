// The interface of a loaded model to the run loop. PipelineModel (pipeline_model.h) is the engine's; tests drive the
// loop, the protocol and the frontend with a scripted one.
#ifndef KINORA_SERVER_WORKER_MODEL_H_
#define KINORA_SERVER_WORKER_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/trace.h"
#include "engine/pipeline/clip_sink.h"
#include "engine/pipeline/latent_preview.h"
#include "engine/pipeline/resume_point.h"
#include "engine/pipeline/run_observer.h"
#include "engine/pipeline/run_plan.h"
#include "engine/request/request.h"
#include "kinora/v1/video_generation.pb.h"
#include "kinora/v1/worker.pb.h"
#include "server/decode/input_reader.h"

namespace kinora {

// One request, planned once, so that reports on the run and the run itself use the same plan.
struct PreparedRun {
  v1::Generation generation;  // effective: every default filled in
  RunPlan plan;
  std::shared_ptr<const ResumePoint> from{};  // where the run begins, on rank 0; null: at its beginning
};

class Model {
 public:
  virtual ~Model() = default;

  // Returns the model's description for the frontend: ModelInfo, mesh, precision, load times.
  virtual v1::Ready Describe() const = 0;

  // Has `changed` called with the model after each change of its LoRAs, on any thread. Null: calls nothing. Once this
  // has returned, the previous listener does not run. The listener also gets the changes since Describe.
  virtual void SetListener(const std::function<void(const v1::ModelInfo&)>& /*changed*/) {}

  // Plans a request, for the methods below. Does not read the inputs that it names, but assumes the longest that are
  // allowed. Any thread, also during Generate.
  virtual absl::StatusOr<PreparedRun> Prepare(const v1::Generation& generation) const = 0;

  // Reads the inputs that a request names into it, within the limits. Called on the leading rank.
  using ReadRequest = std::function<absl::Status(const InputLimits& limits, GenerationRequest& request)>;
  // Plans a run. Every rank of the group calls this at the same time, between two Generates. If the request names
  // inputs, the leading rank plans with those that `read` returns, and the following ranks, whose `read` is null, plan
  // with their sizes. If `read` fails, returns its error on the leading rank and Cancelled on the others. If the model
  // chooses the length of the clip, the ranks encode the prompt first. Aborted: as Generate. observer: told of a stage
  // that runs, on the leading rank, and called between parts of long work; an error from it ends the planning.
  virtual absl::StatusOr<PreparedRun> PrepareRun(const v1::Generation& generation, const ReadRequest& read,
                                                 RunObserver& observer) = 0;

  // Time and memory of the run. Any thread, also during Generate.
  virtual v1::Estimate Estimate(const PreparedRun& run) const = 0;
  // Everything needed to compute the clip again, for Video.resolved.
  virtual v1::Resolved Resolve(const PreparedRun& run) const = 0;
  // Returns the expected seconds of all steps of a stage of the run's plan, or of finalizing; 0 if unknown.
  virtual double ExpectedSeconds(const PreparedRun& run, Stage stage) const = 0;

  // Runs the plan from `run.from` on; one run at a time. An error from the observer ends the run with that status. Sets
  // device_seconds, peak_device_bytes and planned_device_bytes of `usage`, also if the run fails. On a following rank,
  // `sink` and `observer` are null. Aborted: a rank failed alone, or the group is lost (AbortSignal); it can run
  // nothing more.
  virtual absl::Status Generate(const PreparedRun& run, ClipSink* sink, RunObserver* observer, v1::Usage& usage) = 0;

  // Finds or fits the map that previews are made with. Called on the leading rank, before a Generate whose observer
  // requests latents for previews. go_on: called now and then; an error from it ends the work. Fails with
  // ResourceExhausted or FailedPrecondition if this model cannot make previews.
  using GoOn = std::function<absl::Status()>;
  virtual absl::Status PreparePreviews(const GoOn& /*go_on*/) {
    return absl::UnimplementedError("previews: not of this model");
  }
  // Returns a preview of the step's estimate of the picture, latents.x0.video, which must be defined. Called by the
  // observer during that Generate. Fails with the device's error.
  virtual absl::StatusOr<PreviewPicture> Preview(const StepLatents& /*latents*/) {
    return absl::UnimplementedError("previews: not of this model");
  }

  // Returns the file of a resume point of this run. Any thread.
  virtual std::string ResumeFileOf(const PreparedRun& /*run*/, ResumePoint&& /*point*/) const { return ""; }
  // No resume point of this run has a larger file.
  virtual int64_t MostResumeFileBytes(const PreparedRun& /*run*/) const { return 0; }
  // Returns the point in a file, which is untrusted. An error says, to a client, why the run cannot continue there: the
  // file is damaged, or the model, the machine or anything else that shapes the clip is not what it was.
  virtual absl::StatusOr<ResumePoint> ReadResumeFile(const PreparedRun& /*run*/, std::string_view /*file*/) const {
    return absl::UnimplementedError("runs of this model cannot be resumed");
  }

  // Ends the trace after a successful run. Every rank calls this. Returns the trace of all ranks on rank 0, "" on the
  // others. Aborted: as Generate.
  virtual absl::StatusOr<std::string> EndTrace() { return StopTrace(); }

  // Add the speed of a run of this model, and of runs before it was loaded, for Estimate and ExpectedSeconds. Any
  // thread.
  virtual void Observe(const v1::RunSpeed& run) = 0;
  virtual void Remember(const v1::SpeedHistory& past) = 0;
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_MODEL_H_
