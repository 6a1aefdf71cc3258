#include "server/worker/resume_keeper.h"

#include <new>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "engine/base/trace.h"
#include "server/common/metrics.h"
#include "server/common/stage_conversion.h"

namespace kinora {
namespace {

constexpr absl::Duration kLogInterval = absl::Minutes(1);  // of failures, which may come with every step

}  // namespace

ResumeKeeper::ResumeKeeper(const RunContext& context, const v1::Run& run, const PreparedRun& prepared,
                           const RunArtifacts& artifacts, Options options)
    : context_(context),
      run_(run),
      prepared_(prepared),
      artifacts_(artifacts),
      options_(std::move(options)),
      last_(options_.begin) {}

ResumeKeeper::~ResumeKeeper() {
  const bool waits = !left_ && (!context_.cancelled || told_to_leave());
  const bool idle = AwaitIdle(waits ? options_.patience : absl::ZeroDuration());
  {
    absl::MutexLock lock(&mu_);
    ended_ = true;
  }
  give_up_ = !idle;
  if (!idle && artifacts_.uploads != nullptr) artifacts_.uploads->Interrupt();
  if (thread_.joinable()) thread_.join();
  if (!idle && artifacts_.uploads != nullptr) artifacts_.uploads->Resume();
}

bool ResumeKeeper::Wants(const Progress& progress) {
  const absl::Time now = context_.steady.Now();
  const bool leaves = told_to_leave() && !left_;
  const bool due = options_.interval > absl::ZeroDuration() && now - last_ >= options_.interval;
  if (!leaves && (!due || !AwaitIdle(absl::ZeroDuration()))) return false;
  began_ = now;
  wanted_ = progress;
  return true;
}

void ResumeKeeper::Keep(ResumePoint&& point) {
  const absl::Time now = context_.steady.Now();
  const bool leaves = told_to_leave();
  const absl::Time deadline = Clock::Steady().Now() + options_.patience;
  context_.metrics.resume_point_seconds.Add({{"part", "take"}}, StepBuckets())
      .Observe(absl::ToDoubleSeconds(now - began_));
  last_ = now;
  if (leaves) left_ = true;
  if (!AwaitIdle(leaves ? options_.patience : absl::ZeroDuration())) return;  // the older one is stuck
  Taken taken{.point = std::move(point), .described = {}};
  taken.described.set_id(absl::StrCat("resume-", ++taken_));
  SetStage(wanted_.stage, taken.described);
  taken.described.set_step(wanted_.step);
  taken.described.set_total_steps(wanted_.total_steps);
  taken.described.set_fraction(options_.fraction(wanted_));
  {
    absl::MutexLock lock(&mu_);
    next_ = std::move(taken);
    busy_ = true;
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { StoreAll(); });
  if (leaves) AwaitIdle(deadline - Clock::Steady().Now());
}

bool ResumeKeeper::HoldsBack(const Progress& progress) {
  constexpr int kMostHeldBack = 3;  // progress reports: a state is taken at the next boundary but one, or never
  return told_to_leave() && !left_ && progress.stage.kind == StageKind::kDenoise &&
         progress.step < progress.total_steps && held_back_++ < kMostHeldBack;
}

bool ResumeKeeper::AwaitIdle(absl::Duration patience) {
  const auto idle = [this] {
    mu_.AssertHeld();
    return !busy_;
  };
  Clock& steady = Clock::Steady();
  absl::MutexLock lock(&mu_);
  return steady.AwaitUntil(mu_, absl::Condition(&idle), steady.Now() + patience);
}

void ResumeKeeper::StoreAll() {
  const auto awake = [this] {
    mu_.AssertHeld();
    return next_.has_value() || ended_;
  };
  while (true) {
    std::optional<Taken> taken;
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(&awake));
      if (!next_) return;
      taken = std::exchange(next_, std::nullopt);
    }
    Store(*std::move(taken));
    absl::MutexLock lock(&mu_);
    busy_ = false;
  }
}

void ResumeKeeper::Store(Taken&& taken) {
  absl::Status status;
  try {
    status = TryStore(std::move(taken));
  } catch (const std::bad_alloc&) {
    status = absl::ResourceExhaustedError("out of memory");
  }
  context_.metrics.resume_points_total.Add({{"outcome", status.ok() ? "stored" : "failed"}}).Increment();
  if (!status.ok()) CountFailure(status);
}

absl::Status ResumeKeeper::TryStore(Taken&& taken) {
  const absl::Time begin = context_.steady.Now();
  v1::WorkerMessage message;
  v1::ResumeMark& mark = *message.mutable_resume();
  mark.set_video_id(run_.video_id());
  mark.set_attempt(run_.attempt());
  *mark.mutable_point() = std::move(taken.described);
  const std::string file = context_.model.ResumeFileOf(prepared_, std::move(taken.point));
  const auto go_on = [this] { return give_up_ ? absl::CancelledError("given up") : absl::OkStatus(); };
  KINORA_ASSIGN_OR_RETURN(const StoredFile stored, artifacts_.Store(run_, mark.point().id(), file, go_on));
  mark.mutable_point()->set_bytes(stored.bytes);
  mark.mutable_point()->set_sha256(stored.sha256);
  context_.send(message);
  context_.metrics.resume_point_bytes_total.Increment(static_cast<double>(stored.bytes));
  context_.metrics.resume_point_seconds.Add({{"part", "store"}}, StepBuckets())
      .Observe(absl::ToDoubleSeconds(context_.steady.Now() - begin));
  return absl::OkStatus();
}

void ResumeKeeper::CountFailure(const absl::Status& status) {
  ++failures_;
  const absl::Time now = context_.steady.Now();
  if (now < quiet_until_) return;
  quiet_until_ = now + kLogInterval;
  Log(Severity::kWarning, "resume_point_failed",
      {{"job", run_.video_id()},
       {"attempt", run_.attempt()},
       {"failures", std::exchange(failures_, 0)},
       {"why", status.ToString()}});
}

}  // namespace kinora
