// Dispatcher: the groups' descriptions of their models, and storing them.
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"
#include "server/common/metrics.h"
#include "server/frontend/groups/dispatcher_impl.h"
#include "server/frontend/jobs/job_metrics.h"
#include "server/request/model_conversion.h"

namespace kinora {
namespace {

constexpr size_t kMostGoneLoras = 1000;
constexpr absl::Duration kModelRetry = absl::Minutes(1);  // after a failed write

// Returns a group that serves other files under the model id of `group`, or null.
const WorkerGroup* ServingOtherFiles(const std::map<std::string, std::unique_ptr<WorkerGroup>>& groups,
                                     const WorkerGroup& group) {
  const auto digests = [](const v1::ModelInfo& model) {  // without LoRAs, which change while groups run
    std::map<std::string, std::string> digests(model.digests().begin(), model.digests().end());
    std::erase_if(digests, [](const auto& file) { return absl::StartsWith(file.first, kLoraDigest); });
    return digests;
  };
  const v1::ModelInfo& model = group.ready().model();
  for (const auto& [id, other] : groups) {
    const v1::ModelInfo& theirs = other->ready().model();
    if (id != group.id() && theirs.id() == model.id() && digests(theirs) != digests(model)) return other.get();
  }
  return nullptr;
}

// Returns the model of `group` with the LoRAs of all groups that serve it.
v1::ModelInfo ModelOf(const std::map<std::string, std::unique_ptr<WorkerGroup>>& groups, const WorkerGroup& group) {
  v1::ModelInfo model = group.ready().model();
  std::set<std::string> loras(model.loras().begin(), model.loras().end());
  for (const auto& [id, other] : groups) {
    const v1::ModelInfo& theirs = other->ready().model();
    if (theirs.id() != model.id()) continue;
    for (const std::string& lora : theirs.loras()) {
      if (!loras.insert(lora).second) continue;
      const std::string digest = LoraDigest(theirs, lora);
      if (!digest.empty()) (*model.mutable_digests())[absl::StrCat(kLoraDigest, lora)] = digest;
    }
  }
  model.mutable_loras()->Assign(loras.begin(), loras.end());
  return model;
}

void SayStored(const v1::Ready& ready, const std::string& group, bool is_new, const absl::Status& status) {
  if (status.ok() && !is_new) return;  // logged as loras_changed
  Log(status.ok() ? Severity::kInfo : Severity::kError, status.ok() ? "group_ready" : "model_not_stored",
      {{"group", group},
       {"model", ready.model().id()},
       {"precision", ready.precision()},
       {"load_seconds", ready.load_seconds()},
       {"why", std::string(status.message())}});
}

}  // namespace

void Dispatcher::Impl::OnReady(WorkerGroup& group) {
  if (const WorkerGroup* other = ServingOtherFiles(groups_, group); other != nullptr) {
    return group.Lose(LossReason::kModelConflict,
                      absl::StrCat("model_id: group ", other->id(), " already serves different files as \"",
                                   group.ready().model().id(), "\"; give one of the two a different model_id"));
  }
  away_models_.erase(group.id());
  ForgetShapes();
  if (metrics_ != nullptr) BeginSeries(*metrics_, group.ready().model());
  catalogue_.Speeds(group.SpeedPlace(), OnLoop<absl::StatusOr<v1::SpeedHistory>>(
                                            [id = group.id(), incarnation = group.incarnation()](
                                                Impl& self, const absl::StatusOr<v1::SpeedHistory>& past) {
                                              const auto it = self.groups_.find(id);
                                              if (it == self.groups_.end() || it->second->incarnation() != incarnation)
                                                return;
                                              if (past.ok() && past->runs_size() > 0) it->second->TellSpeeds(*past);
                                              self.StoreModel(*it->second);
                                            }));
  CheckHealth();
  Schedule();
}

void Dispatcher::Impl::OnFitness(WorkerGroup& group) {
  if (const auto not_logged = fitness_changes_.Admit()) {
    const bool fit = group.state() == WorkerGroup::State::kIdle;
    Log(fit ? Severity::kInfo : Severity::kWarning, fit ? "group_fit" : "group_unfit",
        {{"group", group.id()}, {"why", Describe(group).reason()}, {"not_logged", *not_logged}});
  }
  CheckHealth();
  Schedule();
}

// A LoRA whose file is replaced is not listed until the new file has been read.
void Dispatcher::Impl::NoteLoras(const v1::ModelInfo& before, const v1::ModelInfo& now) {
  const absl::Time time = clocks_.steady.Now();
  std::erase_if(gone_loras_, [&](const auto& gone) { return time - gone.second >= kLoraComesBack; });
  const std::set<std::string> listed(now.loras().begin(), now.loras().end());
  for (const std::string& lora : before.loras()) {
    if (listed.contains(lora) || gone_loras_.size() == kMostGoneLoras) continue;
    gone_loras_[LoraOfModel(now.id(), lora)] = time;
  }
  ReportHealth();
}

void Dispatcher::Impl::OnModelChanged(WorkerGroup& group, const v1::ModelInfo& before) {
  NoteLoras(before, group.ready().model());
  if (const auto not_logged = model_changes_.Admit()) {
    Log(Severity::kInfo, "loras_changed",
        {{"group", group.id()}, {"loras", group.ready().model().loras_size()}, {"not_logged", *not_logged}});
  }
  ForgetShapes();
  StoreModel(group);
  Schedule();
}

// The group is reported as ready once its model is stored, so that requests find the model, and after past run times
// were sent, for estimates. If the model changes while it is being stored, the latest version is stored next.
void Dispatcher::Impl::StoreModel(const WorkerGroup& group) {
  const auto [write, first] = model_writes_.try_emplace(group.incarnation(), false);
  if (!first) {
    write->second = true;
    return;
  }
  catalogue_.PutModel(ModelOf(groups_, group),
                      OnLoop<absl::Status>([id = group.id(), incarnation = group.incarnation(), ready = group.ready()](
                                               Impl& self, const absl::Status& status) {
                        const bool changed = self.model_writes_.extract(incarnation).mapped();
                        const auto here = self.groups_.find(id);
                        if (here == self.groups_.end() || here->second->incarnation() != incarnation)
                          return;  // lost meanwhile
                        const bool is_new = self.described_.insert(incarnation).second;
                        self.CheckHealth();
                        SayStored(ready, id, is_new, status);
                        if (changed) self.StoreModel(*here->second);
                        if (!self.StoreFails(status)) return;
                        self.After(kModelRetry, [id, incarnation](Impl& impl) {
                          const auto group = impl.groups_.find(id);
                          if (group != impl.groups_.end() && group->second->incarnation() == incarnation) {
                            impl.StoreModel(*group->second);
                          }
                        });
                      }));
}

}  // namespace kinora
