// Dispatcher: estimates of requests by rank 0, for EstimateVideo and for jobs that are being created.
#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/common/status_details.h"
#include "server/frontend/groups/dispatcher_impl.h"

namespace kinora {
namespace {

constexpr absl::Duration kEstimateTimeout = absl::Seconds(20);
constexpr absl::Duration kShapePatience = absl::Seconds(2);  // for a job that is being created
constexpr size_t kMostEstimates = 64;                        // pending at workers
constexpr size_t kMostShapes = 1000;                         // cached

// The part of a request that a plan depends on: everything but the seed and the prompts, of which only the magnitude of
// the length counts.
std::string ShapeKey(const std::string& model, const v1::Generation& effective) {
  v1::Generation shape = effective;
  shape.clear_seed();
  shape.clear_prompt();
  if (shape.has_negative_prompt()) shape.set_negative_prompt("");
  return absl::StrCat(model, "\n", std::bit_width(effective.prompt().size()), " ",
                      std::bit_width(effective.negative_prompt().size()), "\n", shape.SerializeAsString());
}

// Returns a group that has the model loaded; "": any model. Null: there is none.
WorkerGroup* GroupWith(const std::map<std::string, std::unique_ptr<WorkerGroup>>& groups, const std::string& model) {
  const auto it = std::find_if(groups.begin(), groups.end(), [&](const auto& entry) {
    const v1::ModelInfo& info = entry.second->ready().model();
    return !info.id().empty() && (model.empty() || info.id() == model);
  });
  return it == groups.end() ? nullptr : it->second.get();
}

}  // namespace

void Dispatcher::Impl::Estimate(const std::string& model, const v1::Generation& effective, Asks asks,
                                Done<v1::Estimate> done) {
  if (asks == Asks::kGroupsHere || !options_.estimate_elsewhere || GroupWith(groups_, model) != nullptr) {
    return StartEstimate(model, effective, std::move(done));
  }
  options_.estimate_elsewhere(
      model, effective, /*is_job=*/false,
      OnLoop<absl::StatusOr<v1::Estimate>>(
          [model, effective, done = std::move(done)](Impl& self, absl::StatusOr<v1::Estimate> estimate) mutable {
            if (!absl::IsUnavailable(estimate.status())) return done(std::move(estimate));
            self.StartEstimate(model, effective, std::move(done));  // its error says what is absent
          }));
}

void Dispatcher::Impl::StartEstimate(const std::string& model, const v1::Generation& effective,
                                     Done<v1::Estimate> done) {
  WorkerGroup* const group = GroupWith(groups_, model);
  if (group == nullptr) {
    const std::string why = reported_health_ ? reported_health_->absent : "";
    done(WithRetryInfo(absl::UnavailableError(absl::StrCat("model: no worker group has \"", model, "\" loaded",
                                                           why.empty() ? "" : ": ", why)),
                       absl::Seconds(5)));
    return;
  }
  if (estimates_.size() >= kMostEstimates) {
    done(WithRetryInfo(absl::ResourceExhaustedError("too many concurrent estimates"), absl::Seconds(1)));
    return;
  }
  const int64_t id = ++last_estimate_;
  estimates_[id] = {.group = group->id(), .done = std::move(done)};
  v1::EstimateRequest request;
  request.set_id(id);
  *request.mutable_generation() = effective;
  group->Estimate(request);
  After(kEstimateTimeout, [id](Impl& self) {
    const auto pending = self.estimates_.find(id);
    if (pending == self.estimates_.end()) return;
    Done<v1::Estimate> late = std::move(self.estimates_.extract(pending).mapped().done);
    late(absl::DeadlineExceededError("the worker did not answer the estimate in time"));
  });
}

void Dispatcher::Impl::OnEstimate(WorkerGroup& group, const v1::EstimateResult& result) {
  const auto it = estimates_.find(result.id());
  if (it == estimates_.end() || it->second.group != group.id()) return;  // not this group's estimate
  Done<v1::Estimate> done = std::move(estimates_.extract(it).mapped().done);
  if (result.has_error() && result.error().code() != 0) return done(FromRpcStatus(result.error()));
  if (!result.has_estimate()) return done(absl::InternalError("the worker's answer contains no estimate"));
  done(result.estimate());
}

void Dispatcher::Impl::FailEstimates(const std::string& group, const absl::Status& status) {
  std::vector<Done<v1::Estimate>> failed;
  for (auto it = estimates_.begin(); it != estimates_.end();) {
    const auto present = it++;
    if (present->second.group == group) failed.push_back(std::move(estimates_.extract(present).mapped().done));
  }
  for (Done<v1::Estimate>& done : failed) done(WithRetryInfo(status, absl::Seconds(5)));
}

void Dispatcher::Impl::EstimateShape(const std::string& model, const v1::Generation& effective, Asks asks,
                                     Done<v1::Estimate> done) {
  if (draining_) return done(absl::UnavailableError("the frontend is stopping"));
  if (asks == Asks::kAnyGroup && options_.estimate_elsewhere && GroupWith(groups_, model) == nullptr) {
    return options_.estimate_elsewhere(model, effective, /*is_job=*/true, std::move(done));  // known there, if at all
  }
  const std::string key = ShapeKey(model, effective);
  if (shapes_.size() >= kMostShapes && !shapes_.contains(key)) ForgetShapes();
  KnownShape& shape = shapes_[key];
  const int64_t ticket = ++last_ticket_;
  if (!shape.estimate) {
    shape.waiting[ticket] = std::move(done);
    After(kShapePatience, [key, ticket](Impl& self) { self.TireOfShape(key, ticket); });
  } else {
    done(*shape.estimate);
    if (!shape.stale) return;  // a stale one is returned, too: only run speeds have changed
  }
  if (std::exchange(shape.asked, true)) return;
  StartEstimate(model, effective, [this, key, ticket, epoch = shapes_epoch_](absl::StatusOr<v1::Estimate> estimate) {
    OnShape(key, ticket, epoch, std::move(estimate));
  });
}

void Dispatcher::Impl::OnShape(const std::string& key, int64_t asker, int64_t epoch,
                               absl::StatusOr<v1::Estimate> estimate) {
  const auto it = shapes_.find(key);
  if (it == shapes_.end()) return;
  KnownShape& shape = it->second;
  shape.asked = false;
  std::map<int64_t, Done<v1::Estimate>> waiting = std::exchange(shape.waiting, {});
  if (estimate.ok()) {  // keep only what all requests of the shape share
    estimate->mutable_effective()->clear_prompt();
    estimate->mutable_effective()->clear_negative_prompt();
    estimate->mutable_effective()->clear_seed();
  }
  if (estimate.ok() && epoch == shapes_epoch_) {
    shape.estimate = *estimate;
    shape.stale = false;
  } else if (!shape.estimate) {
    shapes_.erase(it);
  }
  for (auto& [ticket, done] : waiting) {
    // An error in one request, for instance in its prompt, neither applies to other requests nor may be shown to their
    // clients.
    const bool others_fault = absl::IsInvalidArgument(estimate.status()) && ticket != asker;
    done(others_fault ? absl::UnavailableError("another request of this shape was rejected") : estimate);
  }
}

void Dispatcher::Impl::TireOfShape(const std::string& key, int64_t ticket) {
  const auto it = shapes_.find(key);
  if (it == shapes_.end() || !it->second.waiting.contains(ticket)) return;
  Done<v1::Estimate> done = std::move(it->second.waiting.extract(ticket).mapped());
  done(absl::DeadlineExceededError("the worker did not answer in time"));  // a later answer serves later requests
}

void Dispatcher::Impl::ForgetShapes() {
  ++shapes_epoch_;
  for (auto it = shapes_.begin(); it != shapes_.end();) {
    const auto present = it++;
    present->second.estimate.reset();
    if (!present->second.asked) shapes_.erase(present);
  }
}

void Dispatcher::Impl::AgeShapes() {
  for (auto& [key, shape] : shapes_) shape.stale = true;
}

}  // namespace kinora
