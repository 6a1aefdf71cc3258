#include "server/frontend/jobs/job_watch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/common/status_details.h"
#include "server/frontend/jobs/job_record.h"

namespace kinora {
namespace {

// Recreates the event that ended the job.
v1::VideoEvent TerminalEvent(const JobHistory& history) {
  v1::VideoEvent event;
  event.set_video_id(history.video.id());
  event.set_sequence(history.last_sequence);
  *event.mutable_time() = history.video.end_time();
  *event.mutable_terminal() = history.video;
  return event;
}

}  // namespace

JobWatch::JobWatch(EventSource& source, const JobId& id, int64_t after_sequence, std::function<void()> wake)
    : source_(source), id_(id), after_sequence_(after_sequence), wake_(std::move(wake)), last_(after_sequence) {}

absl::StatusOr<std::shared_ptr<JobWatch>> JobWatch::Open(EventSource& source, const JobId& id, int64_t after_sequence,
                                                         std::function<void()> wake) {
  // Not make_shared, because the constructor is private.
  std::shared_ptr<JobWatch> watch(new JobWatch(source, id, after_sequence, std::move(wake)));
  // Subscribes before the first read, so that no event is missed between the two.
  KINORA_ASSIGN_OR_RETURN(watch->mailbox_, source.Subscribe(id, [weak = std::weak_ptr<JobWatch>(watch)] {
    if (const auto woken = weak.lock()) woken->wake_();
  }));
  return watch;
}

void JobWatch::Read(int64_t after) {
  source_.EventsAfter(id_, after, [watch = shared_from_this()](absl::StatusOr<JobHistory> history) {
    watch->OnRead(std::move(history));
  });
}

void JobWatch::OnRead(absl::StatusOr<JobHistory> history) {
  {
    absl::MutexLock lock(&mu_);
    reading_ = false;
    if (!history.ok()) {
      failure_ = history.status();
    } else {
      failure_ = std::exchange(begun_, true) ? CloseGap(*std::move(history)) : Begin(*std::move(history));
    }
  }
  wake_();
}

absl::Status JobWatch::Begin(JobHistory history) {
  if (after_sequence_ > history.last_sequence) {
    return InvalidField("after_sequence",
                        absl::StrCat(after_sequence_, " is after the last event; nearest: ", history.last_sequence));
  }
  // The client has all events, but may not know that the last one ended the job.
  if (history.events.empty() && IsTerminal(history.video.state())) history.events.push_back(TerminalEvent(history));
  v1::VideoEvent& snapshot = read_.emplace_back();
  snapshot.set_video_id(history.video.id());
  snapshot.set_sequence(after_sequence_);
  // The time of the last stored event, so that a client can tell which events the snapshot includes.
  if (!history.events.empty()) *snapshot.mutable_time() = history.events.back().time();
  *snapshot.mutable_snapshot() = std::move(history.video);
  for (v1::VideoEvent& event : history.events) read_.push_back(std::move(event));
  return absl::OkStatus();
}

absl::Status JobWatch::CloseGap(JobHistory history) {
  int64_t last = last_;
  for (v1::VideoEvent& event : history.events) {
    if (event.sequence() != last + 1) break;
    last = event.sequence();
    read_.push_back(std::move(event));
  }
  if (last >= awaited_) return absl::OkStatus();
  read_.clear();
  return absl::DataLossError(
      absl::StrCat("event ", last + 1, " of job \"", id_, "\" is missing, but event ", awaited_, " was announced"));
}

std::optional<v1::VideoEvent> JobWatch::NextNews() {
  while (auto event = mailbox_->Next()) {
    if (event->sequence() == 0) {  // step, preview, heartbeat
      event->set_sequence(last_);
      return event;
    }
    if (event->sequence() <= last_) continue;  // was delivered
    if (event->sequence() == last_ + 1) {
      last_ = event->sequence();
      return event;
    }
    awaited_ = event->sequence();
    return std::nullopt;
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<v1::VideoEvent>> JobWatch::Next() {
  int64_t after = 0;
  {
    absl::MutexLock lock(&mu_);
    if (reading_) return std::nullopt;
    KINORA_RETURN_IF_ERROR(failure_);
    if (!read_.empty()) {
      v1::VideoEvent event = std::move(read_.front());
      read_.pop_front();
      last_ = event.sequence();
      return event;
    }
    std::optional<v1::VideoEvent> event = NextNews();
    if (event.has_value() || awaited_ <= last_) return event;
    reading_ = true;
    after = last_;
  }
  Read(after);
  return std::nullopt;
}

}  // namespace kinora
