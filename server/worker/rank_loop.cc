#include "server/worker/rank_loop.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/common/status_details.h"
#include "server/common/timestamps.h"

namespace kinora {
namespace {

constexpr absl::Duration kHearing = absl::Seconds(1);
constexpr size_t kMostEstimates = 64;  // waiting; a frontend of this version requests no more at once

bool IsOf(const v1::Cancel& cancel, const v1::Run& run) {
  return cancel.video_id() == run.video_id() && cancel.attempt() == run.attempt();
}

v1::WorkerMessage TooManyEstimates(const v1::EstimateRequest& request) {
  v1::WorkerMessage message;
  message.mutable_estimate_result()->set_id(request.id());
  *message.mutable_estimate_result()->mutable_error() =
      ToRpcStatus(WithRetryInfo(absl::ResourceExhaustedError("too many concurrent estimates"), absl::Seconds(1)));
  return message;
}

}  // namespace

int64_t ReadMeter::Bytes() {
  const int fd = open("/proc/self/io", O_RDONLY | O_CLOEXEC);
  char text[512] = "";
  const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
  if (fd >= 0) close(fd);
  long long bytes = 0;
  if (n <= 0 || std::sscanf(text, "rchar: %lld", &bytes) != 1) return 0;
  const int64_t others = bytes - own_;  // the kernel computed it before it added this read
  own_ += n;
  return others;
}

RankLoop::RankLoop(RankLines lines, WorkerMetrics& metrics, std::function<void()> on_stream_end)
    : client_(lines.client),
      rendezvous_(lines.rendezvous),
      files_(lines.files),
      lost_(lines.lost),
      fitness_(lines.fitness),
      metrics_(metrics),
      on_stream_end_(std::move(on_stream_end)) {
  client_.Start([this] { return Heartbeat(); }, [this](const v1::FrontendMessage& message) { OnMessage(message); },
                [this](const absl::Status& status) { OnEnd(status); });
}

RankLoop::~RankLoop() {
  client_.End();
  Stop(absl::ZeroDuration());
  if (estimator_.joinable()) estimator_.join();
  if (stopper_.joinable()) stopper_.join();
}

v1::Heartbeat RankLoop::Heartbeat() {
  v1::Heartbeat beat;
  if (!fitness_.last().ok()) beat.set_unfit(std::string(fitness_.Look().message()));
  absl::MutexLock lock(&mu_);
  beat.set_phase(phase_);
  beat.set_units_done(units_done_ + (phase_ == "load" ? reads_.Bytes() : 0));
  return beat;
}

void RankLoop::SayUnfit() {
  if (fitness_.last().ok()) return;
  v1::WorkerMessage message;
  *message.mutable_heartbeat() = Heartbeat();
  client_.Send(message);
}

absl::Status RankLoop::Readiness() const {
  const absl::Status fit = fitness_.last();
  absl::MutexLock lock(&mu_);
  if (ended_) return absl::UnavailableError("the frontend disconnected");
  if (phase_ == "load") return absl::UnavailableError("the model is loading");
  return stopping_ ? absl::UnavailableError("leaving") : fit;
}

absl::Status RankLoop::Run(Rank& rank, Model& model) {
  v1::WorkerMessage ready;
  *ready.mutable_ready() = model.Describe();
  {
    absl::MutexLock lock(&mu_);
    phase_ = "idle";
    units_done_ += reads_.Bytes();  // continues from the load's last report
  }
  fitness_.Look().IgnoreError();
  SayUnfit();
  client_.Send(ready);
  model.SetListener([this](const v1::ModelInfo& changed) {
    v1::WorkerMessage news;
    *news.mutable_model() = changed;
    client_.Send(news);
  });
  const absl::Cleanup listen_no_more = [&model] { model.SetListener(nullptr); };
  estimator_ = std::thread([this, &model] { AnswerEstimates(model); });

  while (true) {
    KINORA_ASSIGN_OR_RETURN(const std::optional<v1::Run> run, NextRun());
    if (!run) {
      v1::WorkerMessage leaving;  // unless the frontend has sent Shutdown
      leaving.mutable_heartbeat()->set_phase("leaving");
      if (!dismissed_) SayLast(leaving);
      return absl::OkStatus();
    }
    KINORA_RETURN_IF_ERROR(RunOne(rank, model, *run));
  }
}

absl::StatusOr<std::optional<v1::Run>> RankLoop::NextRun() {
  const auto awake = [this] {
    mu_.AssertHeld();
    return ended_ || stopping_ || !runs_.empty();
  };
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(&awake));
  if (stopping_) return std::nullopt;
  if (ended_) return *ended_;
  running_ = std::move(runs_.front());
  runs_.pop_front();
  cancelled_ = keep_state_ = false;
  if (IsOf(last_cancel_, *running_)) CancelRun(last_cancel_.keep_state());
  phase_ = "run";
  return running_;
}

absl::Status RankLoop::RunOne(Rank& rank, Model& model, const v1::Run& run) {
  Log(Severity::kInfo, "run_started", {{"job", run.video_id()}, {"attempt", run.attempt()}});
  const RunContext context{.model = model,
                           .metrics = metrics_,
                           .send = [this](const v1::WorkerMessage& message) { client_.Send(message); },
                           .cancelled = cancelled_,
                           .units_done = units_done_,
                           .fitness = &fitness_,
                           .keep_state = &keep_state_};
  v1::WorkerMessage message;
  *message.mutable_run_result() = rank.Run(context, run);
  absl::Status status = FromRpcStatus(message.run_result().error());
  Log(Severity::kInfo, "run_ended",
      {{"job", run.video_id()},
       {"attempt", run.attempt()},
       {"code", absl::StatusCodeToString(status.code())},
       {"why", message.run_result().error().message()}});
  if (absl::IsAborted(status)) {  // no outcome: the group is lost, and the job runs again
    return SayRankFailed(status);
  }
  if (!status.ok()) *message.mutable_run_result()->mutable_error() = ToRpcStatus(WithoutDirectories(status));
  {
    absl::MutexLock lock(&mu_);
    running_.reset();
    phase_ = "idle";
  }
  SayUnfit();  // before the result, after which the frontend treats this rank as idle
  client_.Send(message);
  return absl::OkStatus();
}

absl::Status RankLoop::SayRankFailed(const absl::Status& status) {
  v1::WorkerMessage message;
  *message.mutable_rank_failed()->mutable_error() = ToRpcStatus(status);
  SayLast(message);
  return status;
}

void RankLoop::SayLast(const v1::WorkerMessage& message) {
  client_.Send(message);
  const auto ended = [this] {
    mu_.AssertHeld();
    return ended_.has_value();
  };
  absl::MutexLock lock(&mu_);
  mu_.AwaitWithTimeout(absl::Condition(&ended), kHearing);
}

void RankLoop::OnAbort(const v1::Abort& abort) {
  Log(Severity::kWarning, "aborted", {{"why", abort.why()}});
  const absl::Status why = absl::AbortedError(absl::StrCat("the group is lost: ", abort.why()));
  rendezvous_.Abort(why);
  files_.Abort(why);
  lost_.Raise();
}

void RankLoop::OnMessage(const v1::FrontendMessage& message) {
  if (message.has_shutdown()) {
    dismissed_ = true;
    return Stop(FromProto(message.shutdown().grace()));
  }
  if (message.has_abort()) return OnAbort(message.abort());
  if (message.has_upload_answer()) return files_.artifacts.Receive(message.upload_answer());
  if (message.has_input_piece()) return files_.inputs.Receive(message.input_piece());
  if (message.has_rendezvous()) return rendezvous_.Receive(message.rendezvous());
  if (message.has_estimate()) return OnEstimate(message.estimate());
  absl::MutexLock lock(&mu_);
  switch (message.message_case()) {
    case v1::FrontendMessage::kRun:
      runs_.push_back(message.run());
      break;
    case v1::FrontendMessage::kCancel:
      last_cancel_ = message.cancel();
      if (running_ && IsOf(last_cancel_, *running_)) CancelRun(last_cancel_.keep_state());
      break;
    case v1::FrontendMessage::kSpeeds:
      speeds_ = message.speeds();
      break;
    default:
      break;
  }
}

void RankLoop::OnEstimate(const v1::EstimateRequest& request) {
  {
    absl::MutexLock lock(&mu_);
    if (estimates_.size() < kMostEstimates) return estimates_.push_back(request);
  }
  client_.Send(TooManyEstimates(request));  // may block, but delays neither heartbeats nor the run
}

void RankLoop::OnEnd(const absl::Status& status) {
  rendezvous_.Abort(absl::UnavailableError("the frontend disconnected"));
  files_.Abort(absl::AbortedError("the frontend disconnected"));
  if (on_stream_end_) on_stream_end_();
  absl::MutexLock lock(&mu_);
  if (phase_ == "load") lost_.Raise();  // a run ends at its next step instead
  ended_ = status.ok() ? absl::UnavailableError("the frontend closed the stream") : status;
  CancelRun(/*keep_state=*/false);  // nobody wants the result
}

void RankLoop::CancelRun(bool keep_state) {
  keep_state_ = keep_state;
  cancelled_ = true;  // last: a run that sees it sees what to do with the state
}

void RankLoop::Stop(absl::Duration grace) {
  absl::MutexLock lock(&mu_);
  Clock& steady = Clock::Steady();
  stop_deadline_ = std::min(stop_deadline_, steady.Now() + grace);
  if (stopping_) return;
  stopping_ = true;
  stopper_ = std::thread([this, &steady] {
    const auto over = [this, &steady] {
      mu_.AssertHeld();
      return !running_ || ended_ || steady.Now() >= stop_deadline_;  // a second Stop may shorten it
    };
    absl::MutexLock lock(&mu_);
    steady.AwaitUntil(mu_, absl::Condition(&over), stop_deadline_);
    if (!cancelled_) CancelRun(/*keep_state=*/true);
  });
}

void RankLoop::AnswerEstimates(Model& model) {
  const auto awake = [this] {
    mu_.AssertHeld();
    return ended_ || stopping_ || !estimates_.empty() || speeds_;
  };
  while (true) {
    v1::EstimateRequest request;
    std::optional<v1::SpeedHistory> speeds;
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(&awake));
      if (ended_ || stopping_) return;
      speeds = std::exchange(speeds_, std::nullopt);
      if (!speeds) {
        request = std::move(estimates_.front());
        estimates_.pop_front();
      }
    }
    if (speeds) {
      model.Remember(*speeds);
      continue;
    }
    v1::WorkerMessage message;
    v1::EstimateResult& result = *message.mutable_estimate_result();
    result.set_id(request.id());
    const absl::StatusOr<PreparedRun> run = model.Prepare(request.generation());
    if (run.ok()) {
      *result.mutable_estimate() = model.Estimate(*run);
    } else {
      *result.mutable_error() = ToRpcStatus(WithoutDirectories(run.status()));
    }
    client_.Send(message);
  }
}

}  // namespace kinora
