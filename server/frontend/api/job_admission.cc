#include "server/frontend/api/job_admission.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/common/status_details.h"
#include "server/frontend/jobs/random_id.h"
#include "server/request/input_refs.h"
#include "server/request/shape_fit.h"

namespace kinora {
namespace {

void Reject(ServiceContext& context, const std::string& model, const v1::CreateVideoRequest& request,
            const absl::Status& error) {
  const absl::Status status = FromRpcStatus(ToRpcStatus(error));  // as the client gets it
  context.metrics.CountRefused(model, request, status);
  Log(Severity::kInfo, "request_refused",
      {{"code", absl::StatusCodeToString(status.code())}, {"reason", ErrorReason(status)}});
}

// Stores the job and uses the reserved place.
void Store(ServiceContext& context, Validated validated, double estimated_seconds, Done<Created> done) {
  const v1::CreateVideoRequest request = std::move(validated.request);
  context.store.Create(request, validated.effective, estimated_seconds,
                       [&context, request, done = std::move(done)](absl::StatusOr<Created> created) mutable {
                         if (!created.ok()) {
                           context.queue.Unreserve();
                           Reject(context, request.model(), request, created.status());
                         } else if (created->replayed) {
                           context.queue.Unreserve();
                         } else {
                           Log(Severity::kInfo, "job_created",
                               {{"job", created->video.id()},
                                {"model", request.model()},
                                {"recipe", v1::Generation::Recipe_Name(created->video.effective().recipe())}});
                           context.queue.Push(ToQueuedJob(created->video, request.scheduling()));
                         }
                         done(std::move(created));
                       });
}

// Rejects a shape that rank 0 rejects. Without an answer, for instance while no group is up, the checks against the
// model's description decide, and a job that does not fit fails later with the same error.
absl::Status Fits(const absl::StatusOr<v1::Estimate>& estimate) {
  if (estimate.ok()) return estimate->fits() ? absl::OkStatus() : ShapeTooLarge(*estimate);
  return absl::IsInvalidArgument(estimate.status()) ? estimate.status() : absl::OkStatus();
}

// Releases the reserved place. A retry with a known request_id gets the same answer as before, whatever fits now.
void Decline(ServiceContext& context, const v1::CreateVideoRequest& request, const absl::Status& status,
             Done<Created> done) {
  context.queue.Unreserve();
  const auto refuse = [&context, request, status](Done<Created>& done) {
    Reject(context, request.model(), request, status);
    done(status);
  };
  if (request.request_id().empty()) return refuse(done);
  context.store.FindCreated(request, [refuse, done = std::move(done)](absl::StatusOr<Created> known) mutable {
    absl::IsNotFound(known.status()) ? refuse(done) : done(std::move(known));
  });
}

// Asks rank 0. Requires a reserved place.
void AskWhetherItFits(ServiceContext& context, Validated validated, Done<Created> done) {
  const std::string model = validated.request.model();
  const v1::Generation effective = validated.effective;
  context.estimate_shape(model, effective,
                         [&context, validated = std::move(validated),
                          done = std::move(done)](const absl::StatusOr<v1::Estimate>& estimate) mutable {
                           if (const absl::Status status = Fits(estimate); !status.ok()) {
                             return Decline(context, validated.request, status, std::move(done));
                           }
                           Store(context, std::move(validated), estimate.ok() ? estimate->seconds() : 0,
                                 std::move(done));
                         });
}

// Checks the inputs, then the shape. Requires a reserved place.
void AdmitValidated(ServiceContext& context, Validated validated, Done<Created> done) {
  std::vector<InputRef> inputs = InputRefsOf(validated.effective);
  if (inputs.empty()) return AskWhetherItFits(context, std::move(validated), std::move(done));
  context.inputs.Require(std::move(inputs), [&context, validated = std::move(validated),
                                             done = std::move(done)](const absl::Status& status) mutable {
    if (!status.ok()) return Decline(context, validated.request, status, std::move(done));
    AskWhetherItFits(context, std::move(validated), std::move(done));
  });
}

// Returns Unavailable if the request is invalid only because LoRA files are being replaced, otherwise OK.
absl::Status AwaitedLora(const v1::CreateVideoRequest& request, v1::ModelInfo model, const ServiceContext& context) {
  std::string awaited;
  for (const v1::LoraRef& lora : request.generation().loras()) {
    if (!context.comes_back(model.id(), lora.id())) continue;
    awaited = lora.id();
    model.add_loras(lora.id());
  }
  if (awaited.empty() || !ValidateRequest(request, model, context.limits, &RandomSeed).ok()) return absl::OkStatus();
  return WithRetryInfo(absl::UnavailableError(absl::StrCat(
                           "loras: ", awaited, " was listed a moment ago; its file is being replaced or was removed")),
                       absl::Seconds(1));
}

// Returns the error for a request that the model's description rejects. While no group takes jobs and one is loading,
// the description is from an earlier start: parts and LoRAs missing in it may be available soon.
absl::Status ExplainRejection(const v1::CreateVideoRequest& request, v1::ModelInfo model, const ServiceContext& context,
                              const absl::Status& refused) {
  KINORA_RETURN_IF_ERROR(AwaitedLora(request, model, context));
  const Absence absence = context.absence();
  if (!absence.loading) return refused;
  model.mutable_parts()->set_video_encoder(true);
  model.mutable_parts()->set_upsampler(true);
  model.mutable_parts()->set_distilled_lora(true);
  model.mutable_parts()->set_audio_encoder(true);
  for (const v1::LoraRef& lora : request.generation().loras()) model.add_loras(lora.id());
  if (!ValidateRequest(request, model, context.limits, &RandomSeed).ok()) return refused;
  return WithErrorInfo(WithRetryInfo(absl::UnavailableError(absl::StrCat(
                                         "the model is loading (", absence.why,
                                         "); with its previous configuration: ", std::string(refused.message()))),
                                     absl::Seconds(1)),
                       "NO_MODEL");
}

}  // namespace

void Validate(ServiceContext& context, const v1::CreateVideoRequest& request, Done<Validated> done) {
  context.catalogue.Models(
      [&context, request = request, done = std::move(done)](absl::StatusOr<std::vector<v1::ModelInfo>> models) mutable {
        if (!models.ok()) return done(models.status());
        const absl::StatusOr<v1::ModelInfo> model =
            ChooseModel(*models, request.model(), context.limits.default_model, context.absence());
        if (!model.ok()) return done(model.status());
        absl::StatusOr<v1::Generation> effective = ValidateRequest(request, *model, context.limits, &RandomSeed);
        if (!effective.ok()) return done(ExplainRejection(request, *model, context, effective.status()));
        request.set_model(model->id());
        done(Validated{.request = std::move(request), .effective = *std::move(effective)});
      });
}

void Admit(ServiceContext& context, const v1::CreateVideoRequest& request, bool tied, Done<Created> done) {
  Validate(context, request,
           [&context, request, tied, done = std::move(done)](absl::StatusOr<Validated> validated) mutable {
             if (!validated.ok()) {
               Reject(context, "", request, validated.status());
               return done(validated.status());
             }
             absl::Status status = context.check_disk();
             if (status.ok()) status = context.queue.Reserve();  // before asking rank 0: bounds waiting requests
             if (!status.ok()) {
               Reject(context, validated->request.model(), request, status);
               return done(std::move(status));
             }
             validated->request.set_detach(!tied || request.detach());
             AdmitValidated(context, *std::move(validated), std::move(done));
           });
}

void AddLiveFields(const ServiceContext& context, v1::Video& video) {
  if (video.state() == v1::Video::QUEUED) {
    video.set_queue_position(context.queue.Position(video.id()));
    video.set_waits_for(context.waits_for(video.model()));
  }
  context.hub.AddLatestStep(video);
}

void CancelJob(JobStore& store, WorkQueue& queue, const std::function<void(const JobId&)>& cancel_run, const JobId& id,
               Done<v1::Video> done) {
  store.Cancel(id, [&queue, cancel_run, id, done = std::move(done)](absl::StatusOr<v1::Video> video) mutable {
    if (video.ok()) {
      queue.Remove(id);
      cancel_run(id);
    }
    done(std::move(video));
  });
}

}  // namespace kinora
