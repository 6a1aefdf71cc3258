#include "server/frontend/jobs/housekeeper.h"

#include <utility>

#include "engine/base/logging.h"
#include "server/frontend/jobs/job_files.h"
#include "server/frontend/jobs/job_record.h"
#include "server/net/event_loop.h"

namespace kinora {
namespace {

constexpr int kTidied = 100;  // jobs at a time

}  // namespace

Housekeeper::Housekeeper(JobStore& store, ArtifactStore& artifacts, EventHub& hub, Clock& clock,
                         std::function<void(const JobId&)> cancel, const HousekeeperOptions& options,
                         std::unique_ptr<Executor> loop)
    : store_(store),
      artifacts_(artifacts),
      hub_(hub),
      cancel_(std::move(cancel)),
      options_(options),
      own_files_(loop != nullptr ? nullptr : std::make_unique<EventLoop>(clock)),
      loop_(loop != nullptr ? std::move(loop) : std::make_unique<EventLoop>(clock)),
      files_(own_files_ != nullptr ? own_files_.get() : loop_.get()) {
  loop_->Post([this] { Sweep(); });  // at once, for jobs left by a crash
}

void Housekeeper::Remove(const JobId& id, Finished done) {
  files_->Post([this, id, done = std::move(done)]() mutable {
    absl::Status status = artifacts_.Delete(id);
    if (!status.ok()) {
      Log(Severity::kError, "artifacts_not_deleted", {{"job", id}, {"why", std::string(status.message())}});
      return done(std::move(status));
    }
    store_.Purge(id, std::move(done));
  });
}

void Housekeeper::RemoveAndLog(const JobId& id) {
  Remove(id, [id](const absl::Status& status) {
    if (status.ok()) Log(Severity::kInfo, "job_removed", {{"job", id}});
  });
}

void Housekeeper::JobEnded(const v1::Video& video) {
  if (DeletedAtEnd(video)) return RemoveAndLog(video.id());
  files_->Post([this, video] { DeleteUnused(video, std::nullopt).IgnoreError(); });
}

// Logs an error.
absl::Status Housekeeper::DeleteUnused(const v1::Video& video, const std::optional<v1::ResumeMark>& resume) {
  absl::StatusOr<std::vector<std::string>> keys = artifacts_.Keys(video.id());
  absl::Status status = keys.status();
  if (keys.ok()) {
    for (const std::string& key : UnusedFiles(video, resume, *std::move(keys))) status.Update(artifacts_.Delete(key));
  }
  if (!status.ok()) {
    Log(Severity::kWarning, "unused_files_left", {{"job", video.id()}, {"why", std::string(status.message())}});
  }
  return status;
}

// In a task of its own, so that deletions need not wait for all of them.
void Housekeeper::TidyOne(const v1::Video& video, const std::optional<v1::ResumeMark>& resume) {
  files_->Post([this, video, resume] {
    if (tidies_) tidies_ = DeleteUnused(video, resume).ok();
  });
}

void Housekeeper::Tidy() {
  store_.Unfinished([this](absl::StatusOr<std::vector<UnfinishedJob>> jobs) {
    if (jobs.ok()) {
      for (const UnfinishedJob& job : *jobs) TidyOne(job.video, job.resume);
    }
    TidyEnded("", options_.most_tidied);
  });
}

void Housekeeper::TidyEnded(const std::string& page_token, int64_t most) {
  if (most <= 0) return;
  const ListOptions options{.page_size = kTidied,
                            .page_token = page_token,
                            .states = {v1::Video::COMPLETED, v1::Video::FAILED, v1::Video::CANCELLED}};
  store_.List(options, [this, most](absl::StatusOr<JobPage> page) {
    if (!page.ok()) return;
    for (const v1::Video& video : page->videos) {
      if (video.has_end_time()) TidyOne(video, std::nullopt);  // a damaged record has none, and names nothing
    }
    if (page->next_page_token.empty()) return;
    files_->Post([this, next = page->next_page_token, most] {
      if (tidies_) TidyEnded(next, most - kTidied);
    });
  });
}

void Housekeeper::ClientLeft(const JobId& id) {
  loop_->PostAt(loop_->Now() + options_.disconnect_grace, [this, id] {
    if (hub_.subscriptions(id) == 0) cancel_(id);
  });
}

void Housekeeper::Sweep() {
  store_.SweepExpired(loop_->Now(), [this](absl::StatusOr<std::vector<JobId>> ids) {
    if (!ids.ok()) {
      Log(Severity::kError, "sweep_failed", {{"why", std::string(ids.status().message())}});
      return;
    }
    for (const JobId& id : *ids) RemoveAndLog(id);
  });
  loop_->PostAt(loop_->Now() + options_.sweep_interval, [this] { Sweep(); });
}

}  // namespace kinora
