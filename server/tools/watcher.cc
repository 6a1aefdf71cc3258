#include "server/tools/watcher.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "server/common/human_text.h"
#include "server/tools/job_cancel.h"
#include "server/tools/job_text.h"

namespace kinora {
namespace {

constexpr double kLongSeconds = 120;  // of a clip whose length is told before

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
    return absl::StrCat("job ", video.id(), ": QUEUED again after attempt ", video.attempt());
  }
  if (video.state() == v1::Video::QUEUED && video.queue_position() > 0) {
    return absl::StrCat("job ", video.id(), ": QUEUED, position ", video.queue_position());
  }
  return absl::StrCat("job ", video.id(), ": ", name);
}

// A stream that ends so is worth opening again. CANCELLED is our own doing after a silence.
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
    halt_.Raise();  // nobody waits for a cancel any more
    silence.join();
  };
  absl::Time away_since = absl::InfiniteFuture();
  absl::Duration pause = absl::Milliseconds(250);
  while (true) {
    const int64_t before = events_;
    const std::optional<grpc::Status> read = ReadOnce(video);
    if (!read) return grpc::Status(grpc::StatusCode::CANCELLED, "left");
    const grpc::Status& status = *read;
    if (terminal_) return grpc::Status::OK;
    if (Left()) return grpc::Status(grpc::StatusCode::CANCELLED, "left");  // which broke the stream
    if (!status.ok() && !IsBroken(status) && !IsQueueFull(status)) return status;
    if (events_ == 0 && WasNeverThere(status)) {
      const auto wait = serving_wait_.PauseAfter(status);
      if (!wait) return status;
      if (!WaitForServer(*wait)) return grpc::Status(grpc::StatusCode::CANCELLED, "left");
      continue;
    }
    if (events_ != before || away_since == absl::InfiniteFuture()) {  // it had been there
      away_since = absl::Now();
      pause = absl::Milliseconds(250);
    }
    if (absl::Now() - away_since > options_.reconnect) {
      return status.ok() ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "the stream ended before the job did") : status;
    }
    display_.Note(absl::StrCat("connection to ", connection_.address(), " lost (", status.error_message(),
                               "), trying again in ", absl::FormatDuration(pause)));
    if (!WaitToReconnect(pause)) return grpc::Status(grpc::StatusCode::CANCELLED, "left");
    pause = std::min(pause * 2, absl::Seconds(2));
  }
}

std::optional<grpc::Status> Watcher::ReadOnce(v1::Video* video) {
  const auto context = connection_.StreamContext();
  v1::WatchVideoRequest watch;
  {
    absl::MutexLock lock(&mu_);
    if (leave_) return std::nullopt;
    context_ = context.get();
    last_event_ = absl::Now();
    watch.set_id(id_);
  }
  watch.set_after_sequence(sequence_);
  connection_.ForgetFailures();
  // Until the job's id is known the same request goes out again: its request_id makes it the same job.
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
      last_event_ = absl::Now();
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
  // A server that answers with details (draining, with the time to come back) did not take the job either.
  return !status.error_details().empty() ||
         connection_.channel()->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_TRANSIENT_FAILURE;
}

void Watcher::Handle(const v1::VideoEvent& event, v1::Video* video) {
  sequence_ = std::max(sequence_, event.sequence());
  if (event.has_snapshot()) snapshot_time_ = event.time();
  const bool history = event.time() < snapshot_time_ && !event.has_terminal();  // what the snapshot has already told
  if (history) {
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
    default:
      break;
  }
  if (options_.on_event) options_.on_event(event);
}

void Watcher::NoteState(const v1::Video& video) {
  // What the snapshot said comes again as an event, and a state that only gained details is no news.
  const auto state = std::pair(video.state(), video.attempt());
  if (std::exchange(noted_state_, state) != state) display_.State(DescribeState(video));
  for (const std::string& warning : video.resolved().warnings()) {  // one for all clips of a batch
    display_.NoteOnce(absl::StrCat("note: ", Printable(warning, /*keep_lines=*/false)));
  }
  if (video.estimated_seconds() > kLongSeconds) {
    display_.NoteOnce(absl::StrCat("note: it will take about ", HumanSeconds(video.estimated_seconds())));
  }
}

void Watcher::CancelJob() {
  std::string id;
  {
    absl::MutexLock lock(&mu_);
    cancel_ = true;
    id = id_;
  }
  if (!id.empty()) CancelNow(id);  // otherwise with the first event, which brings the id
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
  // Told to cancel a job whose acceptance is unknown: without a watch the server cancels it by itself after its grace.
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
    if (context_ != nullptr && absl::Now() - last_event_ > options_.silence) context_->TryCancel();
  }
}

}  // namespace kinora
