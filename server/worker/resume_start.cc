#include "server/worker/resume_start.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/common/stage_conversion.h"
#include "server/common/status_details.h"

namespace kinora {
namespace {

// Returns the reason in words for clients.
std::string Unreadable(const absl::Status& status) {
  const std::string why(WithoutDirectories(status).message());
  return absl::StrCat("the stored state ", absl::IsDataLoss(status) ? "is damaged: " : "cannot be read: ", why);
}

absl::StatusOr<ResumePoint> ReadPoint(const Model& model, const RunInputs& inputs, const v1::Run& run,
                                      const PreparedRun& prepared, const Model::GoOn& go_on) {
  const auto bytes = inputs.ReadResumeFile(run, model.MostResumeFileBytes(prepared), go_on);
  if (!bytes.ok()) return absl::Status(bytes.status().code(), Unreadable(bytes.status()));
  KINORA_ASSIGN_OR_RETURN(ResumePoint point, model.ReadResumeFile(prepared, *bytes));
  const v1::ResumePoint& named = run.resume_from();
  const Stage stage = prepared.plan.stages[point.stage].stage();
  if (stage == StageOf(named) && point.step == named.step()) return point;
  return absl::DataLossError(absl::StrCat("the stored state is that of step ", point.step, " of ",
                                          std::string(stage.name()), ", not of step ", named.step(), " of ",
                                          std::string(StageOf(named).name())));
}

}  // namespace

ResumeStart FindResumeStart(const Model& model, const RunInputs& inputs, const v1::Run& run,
                            const PreparedRun& prepared, const Model::GoOn& go_on) {
  if (!run.has_resume_from()) return {};
  absl::StatusOr<ResumePoint> point = ReadPoint(model, inputs, run, prepared, go_on);
  if (!point.ok()) {
    const std::string why(point.status().message());
    Log(Severity::kWarning, "run_begins_anew", {{"job", run.video_id()}, {"attempt", run.attempt()}, {"why", why}});
    return {.point = nullptr, .why_not = why};
  }
  Log(Severity::kInfo, "run_resumes",
      {{"job", run.video_id()},
       {"attempt", run.attempt()},
       {"stage", prepared.plan.stages[point->stage].stage().name()},
       {"step", point->step}});
  return {.point = std::make_shared<const ResumePoint>(*std::move(point)), .why_not = ""};
}

Stage ResumedStage(const PreparedRun& prepared) { return prepared.plan.stages[prepared.from->stage].stage(); }

}  // namespace kinora
