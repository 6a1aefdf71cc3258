#include "server/client/watcher.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "engine/base/growing_pause.h"
#include "server/client/job_cancel.h"
#include "server/client/job_text.h"
#include "server/common/human_text.h"

namespace kinora {
namespace {

constexpr double kLongSeconds = 120;  // jobs estimated longer get a note

ProgressState ToProgressState(const v1::Progress& progress) {
  ProgressState state{.stage = progress.stage(),
                      .step = progress.step(),
                      .total_steps = progress.total_steps(),
                      .fraction = progress.fraction()};
  if (progress.has_remaining())
    state.remaining_seconds = progress.remaining().seconds() + progress.remaining().nanos() * 1e-9;
  return state;
}

std::string DescribeState(const v1::Video& video) {
  const std::string name = v1::Video::State_Name(video.state());
  if (video.state() == v1::Video::QUEUED && video.attempt() > 0) {
    const std::string kept =
        video.has_resume_point() ? absl::StrCat(", continues after ", FormatReached(video.resume_point())) : "";
    return absl::StrCat("job ", video.id(), ": QUEUED again after attempt ", video.attempt(), kept);
  }
  if (video.state() == v1::Video::QUEUED && video.queue_position() > 0) {
    return absl::StrCat("job ", video.id(), ": QUEUED, position ", video.queue_position());
  }
  return absl::StrCat("job ", video.id(), ": ", name);
}

// Whether to reopen the stream. CANCELLED: WatchForSilence cancelled it.
bool IsBroken(const grpc::Status& status) {
  return IsUnreachable(status) || status.error_code() == grpc::StatusCode::CANCELLED ||
         status.error_code() == grpc::StatusCode::INTERNAL || status.error_code() == grpc::StatusCode::UNKNOWN;
}

}  // namespace

Watcher::Watcher(const Connection& connection, ProgressDisplay& display, WatchOptions options)
    : connection_(connection),
      display_(display),
      options_(std::move(options)),
      stub_(v1::VideoGeneration::NewStub(connection.channel())),
      serving_wait_(connection, options_.serving_wait, [this](absl::string_view line) { display_.Note(line); }) {}

grpc::Status Watcher::Generate(v1::CreateVideoRequest request, v1::Video* video) {
  request_ = std::move(request);
  return Follow(video);
}

grpc::Status Watcher::Watch(const std::string& id, int64_t after_sequence, v1::Video* video) {
  {
    absl::MutexLock lock(&mu_);
    id_ = id;
  }
  sequence_ = after_sequence;
  video->set_id(id);
  return Follow(video);
}

grpc::Status Watcher::Follow(v1::Video* video) {
  std::thread silence([this] { WatchForSilence(); });
  const absl::Cleanup join = [this, &silence] {
    {
      absl::MutexLock lock(&mu_);
      ended_ = true;
    }
    halt_.Raise();  // nothing waits for a cancel any more
    silence.join();
  };
  absl::Time away_since = absl::InfiniteFuture();
  GrowingPause growing(absl::Milliseconds(250), absl::Seconds(2));
  while (true) {
    const int64_t before = events_;
    const std::optional<grpc::Status> read = ReadOnce(video);
    if (!read) return grpc::Status(grpc::StatusCode::CANCELLED, "left");
    const grpc::Status& status = *read;
    if (terminal_) return grpc::Status::OK;
    if (Left()) return grpc::Status(grpc::StatusCode::CANCELLED, "left");  // Leave ended the stream
    if (!status.ok() && !IsBroken(status) && !IsQueueFull(status)) return status;
    if (events_ == 0 && WasNeverThere(status)) {
      const auto wait = serving_wait_.PauseAfter(status);
      if (!wait) return status;
      if (!WaitForServer(*wait)) return grpc::Status(grpc::StatusCode::CANCELLED, "left");
      continue;
    }
    if (events_ != before || away_since == absl::InfiniteFuture()) {  // the server was there before
      away_since = options_.steady->Now();
      growing.Reset();
    }
    if (options_.steady->Now() - away_since > options_.reconnect) {
      return status.ok() ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "the stream ended before the job") : status;
    }
    const absl::Duration pause = growing.Next();
    display_.Note(absl::StrCat("connection to ", connection_.address(), " lost (", status.error_message(),
                               "), trying again in ", absl::FormatDuration(pause)));
    if (!WaitToReconnect(pause)) return grpc::Status(grpc::StatusCode::CANCELLED, "left");
  }
}

std::optional<grpc::Status> Watcher::ReadOnce(v1::Video* video) {
  const auto context = connection_.StreamContext();
  v1::WatchVideoRequest watch;
  {
    absl::MutexLock lock(&mu_);
    if (leave_) return std::nullopt;
    context_ = context.get();
    last_event_ = options_.steady->Now();
    watch.set_id(id_);
  }
  watch.set_after_sequence(sequence_);
  connection_.ForgetFailures();
  // Until the job's id is known, repeats the request; its request_id makes it the same job.
  const auto reader =
      watch.id().empty() ? stub_->GenerateVideo(context.get(), request_) : stub_->WatchVideo(context.get(), watch);
  return ReadStream(*reader, video);
}

grpc::Status Watcher::ReadStream(Reader& reader, v1::Video* video) {
  v1::VideoEvent event;
  while (reader.Read(&event)) {
    bool cancel;
    std::string id;
    {
      absl::MutexLock lock(&mu_);
      last_event_ = options_.steady->Now();
      ++events_;
      if (id_.empty()) id_ = event.video_id();
      id = id_;
      cancel = cancel_ && !cancel_sent_;
    }
    Handle(event, video);
    if (cancel && !terminal_) CancelNow(id);
  }
  grpc::Status status = reader.Finish();
  absl::MutexLock lock(&mu_);
  context_ = nullptr;
  return status;
}

bool Watcher::WasNeverThere(const grpc::Status& status) const {
  // A server that answers with details, for instance that it is draining, did not accept the job either.
  return !status.error_details().empty() ||
         connection_.channel()->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_TRANSIENT_FAILURE;
}

void Watcher::Handle(const v1::VideoEvent& event, v1::Video* video) {
  sequence_ = std::max(sequence_, event.sequence());
  if (event.has_snapshot()) snapshot_time_ = event.time();
  if (event.time() < snapshot_time_ && !event.has_terminal()) {  // included in the snapshot
    if (options_.on_event) options_.on_event(event);
    return;
  }
  switch (event.event_case()) {
    case v1::VideoEvent::kSnapshot:
      *video = event.snapshot();
      terminal_ = IsTerminal(video->state());
      NoteState(*video);
      if (!video->progress().stage().empty()) display_.Show(ToProgressState(video->progress()));
      break;
    case v1::VideoEvent::kState:
      *video = event.state();
      NoteState(*video);
      break;
    case v1::VideoEvent::kStage:
      display_.Show(ToProgressState(event.stage()));
      break;
    case v1::VideoEvent::kStep:
      display_.Show(ToProgressState(event.step()));
      break;
    case v1::VideoEvent::kPreview:
      if (options_.preview.wanted()) options_.preview.Show(event.preview(), display_);
      break;
    case v1::VideoEvent::kTerminal:
      *video = event.terminal();
      terminal_ = true;
      display_.Clear();
      break;
    case v1::VideoEvent::kHeartbeat:
      if (video->state() == v1::Video::QUEUED) AskWait(*video);
      break;
    default:
      break;
  }
  if (options_.on_event) options_.on_event(event);
}

void Watcher::NoteState(const v1::Video& video) {
  // Skips states that the snapshot included or that only gained details.
  const auto state = std::pair(video.state(), video.attempt());
  if (std::exchange(noted_state_, state) != state) display_.State(DescribeState(video));
  NoteWait(video);
  const std::string resumed = video.state() == v1::Video::RUNNING ? FormatResumed(video.resolved()) : "";
  if (!resumed.empty()) display_.NoteOnce(absl::StrCat("note: attempt ", video.attempt(), " ", resumed));
  for (const std::string& warning : video.resolved().warnings()) {  // once for all clips of a batch
    display_.NoteOnce(absl::StrCat("note: ", Printable(warning, /*keep_lines=*/false)));
  }
  if (video.estimated_seconds() > kLongSeconds) {
    display_.NoteOnce(absl::StrCat("note: the job will take about ", HumanSeconds(video.estimated_seconds())));
  }
}

void Watcher::NoteWait(const v1::Video& video) {
  if (video.waits_for().empty()) return;
  display_.NoteOnce(absl::StrCat("note: the job is waiting, and no worker group has its model: ",
                                 Printable(video.waits_for(), /*keep_lines=*/false)));
}

void Watcher::AskWait(const v1::Video& video) {
  v1::GetVideoRequest request;
  request.set_id(video.id());
  v1::Video now;
  const auto context = connection_.UnaryContext();
  if (stub_->GetVideo(context.get(), request, &now).ok()) NoteWait(now);
}

void Watcher::CancelJob() {
  std::string id;
  {
    absl::MutexLock lock(&mu_);
    cancel_ = true;
    id = id_;
  }
  if (!id.empty()) CancelNow(id);  // otherwise at the first event, which has the id
}

void Watcher::CancelNow(const std::string& id) {
  const bool sent = CancelJobOrNote(connection_, id, display_, halt_);
  absl::MutexLock lock(&mu_);
  cancel_sent_ = sent;
}

bool Watcher::Left() {
  absl::MutexLock lock(&mu_);
  return leave_;
}

void Watcher::Leave() {
  halt_.Raise();
  absl::MutexLock lock(&mu_);
  leave_ = true;
  if (context_ != nullptr) context_->TryCancel();
}

bool Watcher::WaitForServer(absl::Duration pause) {
  const auto give_up = [this] {
    mu_.AssertHeld();
    return leave_ || cancel_;
  };
  absl::MutexLock lock(&mu_);
  waiting_for_server_ = true;
  waiting_for_server_ = mu_.AwaitWithTimeout(absl::Condition(&give_up), pause);
  return !waiting_for_server_;
}

bool Watcher::IsWaitingForServer() {
  absl::MutexLock lock(&mu_);
  return waiting_for_server_;
}

bool Watcher::WaitToReconnect(absl::Duration pause) {
  // Also stops if told to cancel a job whose acceptance is unknown: unwatched, the server cancels it after its grace.
  const auto give_up = [this] {
    mu_.AssertHeld();
    return leave_ || (cancel_ && id_.empty());
  };
  absl::MutexLock lock(&mu_);
  return !mu_.AwaitWithTimeout(absl::Condition(&give_up), pause);
}

void Watcher::WatchForSilence() {
  absl::MutexLock lock(&mu_);
  while (!mu_.AwaitWithTimeout(absl::Condition(&ended_), absl::Seconds(1))) {
    if (context_ != nullptr && options_.steady->Now() - last_event_ > options_.silence) context_->TryCancel();
  }
}

}  // namespace kinora
