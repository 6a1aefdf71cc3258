// Dispatcher: the resume points of runs.
#include "server/frontend/groups/dispatcher_resume.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"
#include "server/common/metrics.h"
#include "server/common/status_details.h"
#include "server/common/timestamps.h"
#include "server/frontend/groups/artifact_intake.h"
#include "server/frontend/groups/resume_files.h"

namespace kinora {
namespace {

void Refuse(const v1::ResumeMark& mark, const absl::Status& why) {
  Log(Severity::kWarning, "resume_point_refused",
      {{"job", mark.video_id()},
       {"attempt", mark.attempt()},
       {"point", mark.point().id()},
       {"why", std::string(why.message())}});
}

constexpr int kMostOpenPoints = 4;  // of a run, while the store is slow or away

// Compares the point with what has been received.
absl::Status CheckUpload(const RunningJob& run, const v1::ResumePoint& point) {
  const auto came = run.uploaded.find(point.id());
  if (came == run.uploaded.end()) return absl::NotFoundError("the frontend has not received its file");
  if (came->second.bytes == point.bytes() && came->second.sha256 == point.sha256()) return absl::OkStatus();
  return absl::DataLossError("the received file differs from the worker's");
}

void CountOutcome(FrontendMetrics* metrics, const char* outcome) {
  if (metrics != nullptr) metrics->resumed_runs_total.Add({{"outcome", outcome}}).Increment();
}

}  // namespace

void Dispatcher::Impl::OnResume(WorkerGroup& group, const v1::ResumeMark& mark) {
  Resuming::OnMark(*this, group, mark);
}

void Dispatcher::Impl::Resuming::Offer(Impl& self, absl::StatusOr<std::optional<WorkClaim>> claimed) {
  if (!claimed.ok() || !claimed->has_value()) return self.OnClaimed(std::move(claimed));
  std::optional<v1::ResumeMark>& resume = (*claimed)->claimed.resume;
  if (self.options_.points == nullptr) resume.reset();
  if (!resume) return self.OnClaimed(std::move(claimed));
  const v1::ResumeMark mark = *resume;
  self.options_.points->Check(
      mark, self.OnLoop<absl::Status>([claim = **std::move(claimed)](Impl& impl, const absl::Status& there) mutable {
        // After another error, the worker tries to read it, and begins anew if it cannot.
        if (absl::IsNotFound(there) || absl::IsDataLoss(there)) ForgetLost(impl, claim.claimed, there);
        impl.OnClaimed(std::move(claim));
      }));
}

void Dispatcher::Impl::Resuming::ForgetLost(Impl& self, Claimed& claimed, const absl::Status& why) {
  Log(Severity::kWarning, "resume_point_lost",
      {{"job", claimed.attempt.id}, {"attempt", claimed.attempt.number}, {"why", std::string(why.message())}});
  CountOutcome(self.metrics_, "file_lost");
  claimed.resume.reset();
  claimed.video.clear_resume_point();
  self.store_.PutResumePoint(claimed.attempt, {}, [](const Replaced&) {});  // the next attempt finds the same
}

void Dispatcher::Impl::Resuming::Put(RunningJob& run, v1::Run& message) {
  if (!run.resume) return;
  run.offer = ResumeOffer::kMade;
  run.offered = ResumeKey(*run.resume);
  *message.mutable_resume_from() = run.resume->point();
  (*message.mutable_input_paths())[kResumeInput] = run.offered;
}

void Dispatcher::Impl::Resuming::OnResolved(Impl& self, RunningJob& run, const v1::Resolved& resolved) {
  const ResumeOffer before = std::exchange(run.offer, AfterResolved(run.offer, resolved));
  if (run.offer == before) return;
  const bool taken = run.offer == ResumeOffer::kTaken;
  CountOutcome(self.metrics_, taken ? "resumed" : "began_anew");
  Log(Severity::kInfo, taken ? "run_resumed" : "run_not_resumed",
      {{"job", run.attempt.id},
       {"attempt", run.attempt.number},
       {"stage", resolved.resumed_from_stage()},
       {"step", resolved.resumed_from_step()},
       {"why", resolved.not_resumed_because()}});
}

void Dispatcher::Impl::Resuming::OnMark(Impl& self, const WorkerGroup& group, const v1::ResumeMark& mark) {
  RunningJob* const run = self.RunOf(group);
  if (run == nullptr || run->attempt.id != mark.video_id() || run->attempt.number != mark.attempt()) {
    return Refuse(mark, absl::AbortedError("it is not of the present run of its group"));
  }
  if (self.options_.points == nullptr || mark.point().id().empty()) {
    return Refuse(mark, absl::InvalidArgumentError("it has no file"));
  }
  if (run->points_open == kMostOpenPoints) {
    Discard(self, *run, mark);
    return Refuse(mark, absl::ResourceExhaustedError("earlier ones are still being recorded"));
  }
  ++run->points_open;
  ++run->points_in_check;
  if (run->uploads) {
    const absl::Status checked = CheckUpload(*run, mark.point());
    run->uploaded.erase(mark.point().id());
    return OnChecked(self, run->attempt, mark, checked);
  }
  self.options_.points->Check(
      mark, self.OnLoop<absl::Status>([attempt = run->attempt, mark](Impl& impl, const absl::Status& checked) {
        OnChecked(impl, attempt, mark, checked);
      }));
}

void Dispatcher::Impl::Resuming::Discard(Impl& self, RunningJob& run, const v1::ResumeMark& mark) {
  self.options_.points->Delete(mark);
  if (run.uploads) self.options_.intake->Release(ArtifactKey(run.attempt), mark.point().id());
}

// The end of the attempt, if it has come meanwhile, is stored after the point.
void Dispatcher::Impl::Resuming::OnChecked(Impl& self, const Attempt& attempt, const v1::ResumeMark& mark,
                                           const absl::Status& checked) {
  RunningJob* const run = self.Current(attempt);
  if (run == nullptr) return Refuse(mark, absl::AbortedError("its attempt has ended"));
  --run->points_in_check;
  if (!checked.ok()) {
    --run->points_open;
    Refuse(mark, checked);
    if (absl::IsDataLoss(checked)) Discard(self, *run, mark);
  } else {
    if (run->uploads) self.options_.intake->Release(ArtifactKey(attempt), mark.point().id());
    self.store_.PutResumePoint(attempt, mark.point(),
                               self.OnLoop<Replaced>([attempt, mark](Impl& impl, const Replaced& replaced) {
                                 OnStored(impl, attempt, mark, replaced);
                               }));
  }
  if (run->points_in_check > 0 || !run->release) return;
  const Release release = *std::exchange(run->release, std::nullopt);
  self.Requeue(attempt, release);
}

void Dispatcher::Impl::Resuming::OnStored(Impl& self, const Attempt& attempt, const v1::ResumeMark& mark,
                                          const Replaced& replaced) {
  RunningJob* const run = self.Current(attempt);
  if (run != nullptr) --run->points_open;
  if (!replaced.ok()) {
    Refuse(mark, replaced.status());
    // The record may name the file nevertheless; it goes with the job then.
    if (ErrorReason(replaced.status()) != "COMMIT_UNKNOWN") self.options_.points->Delete(mark);
    return;
  }
  if (self.metrics_ != nullptr) self.metrics_->resume_points_accepted_total.Increment();
  if (run != nullptr) {
    run->resume = mark;
    run->saved_time = self.attended();
  }
  if (*replaced && ResumeKey(**replaced) != ResumeKey(mark)) self.options_.points->Delete(**replaced);
}

void Dispatcher::Impl::Resuming::OnRequeued(Impl& self, const RunningJob& run, const absl::StatusOr<v1::Video>& video) {
  if (!run.resume || !video.ok() || video->has_resume_point()) return;
  self.options_.points->Delete(*run.resume);
}

void Dispatcher::Impl::Resuming::Keep(Impl& self, const Attempt& attempt, absl::Duration limit) {
  RunningJob* const run = self.Current(attempt);
  if (run == nullptr || !IsBeforeDecoding(run->stage)) return;
  if (run->progress.has_remaining() && FromProto(run->progress.remaining()) <= limit) return;
  Log(Severity::kInfo, "run_interrupted", {{"job", attempt.id}, {"attempt", attempt.number}});
  self.StopRun(*run, StopReason::kRelease);
}

}  // namespace kinora
