// What the run loop asks of a loaded model. PipelineModel (pipeline_model.h) is the real one; tests drive the loop, the
// protocol and the frontend with a scripted one.
#ifndef KINORA_SERVER_WORKER_MODEL_H_
#define KINORA_SERVER_WORKER_MODEL_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/trace.h"
#include "engine/pipeline/clip_sink.h"
#include "engine/pipeline/latent_preview.h"
#include "engine/pipeline/run_observer.h"
#include "engine/pipeline/run_plan.h"
#include "engine/request/request.h"
#include "kinora/v1/video_generation.pb.h"
#include "kinora/v1/worker.pb.h"

namespace kinora {

// One request, planned once: what is said of the run and the run itself read the same plan.
struct PreparedRun {
  v1::Generation generation;  // effective: every default filled in
  RunPlan plan;
};

class Model {
 public:
  virtual ~Model() = default;

  // What a frontend has to know: ModelInfo, mesh, precision, load times.
  virtual v1::Ready Describe() const = 0;

  // Called from now on with the model when its LoRAs have become others, from a thread of its own; null: no more, and
  // what was set before does not run any more. Between Describe and the first call nothing is missed.
  virtual void SetListener(std::function<void(const v1::ModelInfo&)> /*changed*/) {}

  // The planning of a request; what follows reads it. Inputs that it names are not read: they count as the longest
  // that they may be. Any thread, also during Generate.
  virtual absl::StatusOr<PreparedRun> Prepare(const v1::Generation& generation) const = 0;

  // Reads the inputs that a request names into it; of the rank that leads.
  using ReadRequest = std::function<absl::Status(GenerationRequest& request)>;
  // The planning of a run, by every rank of the group at once, between two Generates: of a request that names inputs
  // with what `read` makes of it, where its ranks follow (no `read`) with its measures. What `read` fails with;
  // Cancelled on the others; Aborted as Generate. go_on: called between the parts of what takes long; what it says,
  // unless OK, ends it.
  using GoOn = std::function<absl::Status()>;
  virtual absl::StatusOr<PreparedRun> PrepareRun(const v1::Generation& generation, const ReadRequest& read,
                                                 const GoOn& go_on) = 0;

  // Any thread, also during Generate.
  virtual v1::Estimate Estimate(const PreparedRun& run) const = 0;
  // What it will take to compute the clip again; for Video.resolved.
  virtual v1::Resolved Resolve(const PreparedRun& run) const = 0;
  // Of a stage as its observer hears it named, all its steps; 0: not known. The watchdog's measure, so generous rather
  // than not.
  virtual double ExpectedSeconds(const PreparedRun& run, const std::string& stage) const = 0;

  // One at a time. What the observer answers, unless OK, ends the run with that status. `usage`: device_seconds,
  // peak_device_bytes and planned_device_bytes, also of a run that failed. On a rank that follows, `sink` and
  // `observer` are null. Aborted: a rank failed alone, or the group is lost (AbortSignal), so it can run nothing more.
  virtual absl::Status Generate(const PreparedRun& run, ClipSink* sink, RunObserver* observer, v1::Usage& usage) = 0;

  // Before a Generate whose observer wants latents to show, on the rank that leads: finds or fits what previews are
  // made by. go_on: asked every now and then; what it says unless OK ends it. ResourceExhausted, FailedPrecondition:
  // there are none to be had.
  virtual absl::Status PreparePreviews(const GoOn& /*go_on*/) {
    return absl::UnimplementedError("previews: not of this model");
  }
  // From inside that Generate: of the picture's estimate, which is there. The device's failure.
  virtual absl::StatusOr<PreviewPicture> Preview(const StepLatents& /*latents*/) {
    return absl::UnimplementedError("previews: not of this model");
  }

  // Ends a trace in which a run has just ended well, by every rank: on rank 0 the trace of all, "" elsewhere. Aborted
  // as Generate.
  virtual absl::StatusOr<std::string> EndTrace() { return StopTrace(); }

  // What a run of this model took, and what earlier ones took before it was loaded; for Estimate and ExpectedSeconds.
  // Any thread.
  virtual void Observe(const v1::RunSpeed& run) = 0;
  virtual void Remember(const v1::SpeedHistory& past) = 0;
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_MODEL_H_
