#include "server/worker/run_reports.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/request/request_warnings.h"
#include "engine/weights/lora.h"
#include "server/common/build_version.h"
#include "server/common/human_text.h"
#include "server/request/input_refs.h"

namespace kinora {

v1::Estimate EstimateRun(const PreparedRun& run, const Speed& speed, const WorkerMemory& reserved,
                         const Pipeline& pipeline) {
  const RunPlan& plan = run.plan;
  v1::Estimate estimate;
  *estimate.mutable_effective() = run.generation;
  estimate.set_seconds(speed.Seconds(ToRunSpeed(plan, {})));
  estimate.set_device_bytes(plan.device_bytes());
  estimate.set_flops(plan.flops());
  const auto check = [&](int64_t needed, int64_t available, const char* what) {
    if (needed <= available) return;
    estimate.add_problems(absl::StrCat("needs ", HumanBytes(needed), " for ", what, ", but only ",
                                       HumanBytesLike(available, needed), " is reserved"));
  };
  check(plan.arena_bytes, reserved.arena_bytes, "activations");
  check(plan.host_arena_bytes, reserved.host_arena_bytes, "host buffers of copies");
  estimate.set_fits(estimate.problems().empty());
  if (!estimate.fits() && plan.untiled_decode) estimate.add_problems(std::string(kUntiledNeedsMore));
  if (estimate.fits()) return estimate;
  const auto nearest = pipeline.NearestThatFits(plan.request);
  if (nearest.ok() && *nearest) {
    estimate.mutable_nearest()->set_width((*nearest)->width);
    estimate.mutable_nearest()->set_height((*nearest)->height);
    estimate.mutable_nearest()->set_num_frames((*nearest)->num_frames);
  }
  return estimate;
}

double ExpectedStageSeconds(const PreparedRun& run, Stage stage, const Speed& speed) {
  const v1::RunSpeed plan = ToRunSpeed(run.plan, {});
  for (size_t i = 0; i < run.plan.stages.size(); ++i) {
    if (run.plan.stages[i].stage() == stage) return speed.Seconds(plan.stages(static_cast<int>(i)));
  }
  return stage.kind == StageKind::kFinalize ? speed.Seconds(*plan.stages().rbegin()) : 0;
}

v1::Resolved ResolveRun(const PreparedRun& run, const ResolvedModel& model) {
  v1::Resolved resolved;
  resolved.set_precision(model.ready.precision());
  resolved.set_mesh(model.ready.mesh());
  resolved.set_build(kBuildVersion);
  resolved.set_device(model.ready.device());
  *resolved.mutable_digests() = model.ready.model().digests();
  for (const InputRef& ref : InputRefsOf(run.generation)) {
    (*resolved.mutable_digests())[absl::StrCat("input/", ref.id)] = absl::StrCat("sha256:", ref.id);
  }
  for (const v1::LoraRef& lora : run.generation.loras()) {
    if (!lora.digest().empty()) (*resolved.mutable_digests())[absl::StrCat("lora/", lora.id())] = lora.digest();
  }
  for (const v1::Condition& condition : run.generation.conditions()) resolved.add_condition_crf(condition.crf());
  resolved.set_num_frames(run.plan.request.num_frames);
  resolved.set_tile_plan(run.plan.tiles.ToString());
  for (std::string& warning : RequestWarnings(model.description, run.plan.request)) {
    resolved.add_warnings(std::move(warning));
  }
  for (const StagePlan& planned : run.plan.stages) {
    if (planned.kind != StageKind::kDenoise) continue;
    v1::Resolved::Stage& stage = *resolved.add_stages();
    stage.set_width(static_cast<int32_t>(planned.grid.out_width()));
    stage.set_height(static_cast<int32_t>(planned.grid.out_height()));
    stage.set_num_frames(static_cast<int32_t>(planned.grid.out_frames()));
    for (const float sigma : planned.sigmas) stage.add_sigmas(sigma);
    stage.set_undistilled(planned.undistilled);
    for (const AppliedLora& applied : planned.loras) {
      v1::LoraRef& lora = *stage.add_loras();
      lora.set_id(applied.id);
      lora.set_strength(applied.strength * (applied.id == kDistilledLora ? model.full_distilled_strength : 1));
    }
  }
  return resolved;
}

}  // namespace kinora
