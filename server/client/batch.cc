#include "server/client/batch.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"
#include "server/client/api_call.h"
#include "server/client/job_cancel.h"
#include "server/client/serving_wait.h"

namespace kinora {
namespace {

constexpr int kMostClips = 1000;

constexpr FlagSpec kFlags[] = {
    {"count", "N",
     "number of clips, with consecutive seeds from --seed, or random seeds without it; --output needs {seed}, {id} or "
     "{n}. Jobs continue if this command ends, unless Ctrl-C cancels them"},
    {"seeds", "LIST", "one clip per seed: 1..8, or 3,7,20..29"},
};

absl::Status BadSeeds(const std::string& text, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("--seeds ", text, ": ", why));
}

absl::StatusOr<std::vector<uint64_t>> ParseSeeds(const std::string& text) {
  std::vector<uint64_t> seeds;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::vector<std::string> ends = absl::StrSplit(part, absl::MaxSplits("..", 1));
    uint64_t first, last;
    if (!absl::SimpleAtoi(ends[0], &first) || !absl::SimpleAtoi(ends.back(), &last) || last < first) {
      return BadSeeds(text, absl::StrCat("\"", part, "\" is neither a seed nor a range such as 1..8"));
    }
    if (last - first >= kMostClips - seeds.size()) return BadSeeds(text, absl::StrCat("at most ", kMostClips));
    for (uint64_t i = 0; i <= last - first; ++i) {
      if (std::find(seeds.begin(), seeds.end(), first + i) != seeds.end()) {
        return BadSeeds(text, absl::StrCat(first + i, " is given twice"));
      }
      seeds.push_back(first + i);
    }
  }
  return seeds;
}

// Returns one seed per clip; nullopt if the server draws it.
absl::StatusOr<std::vector<std::optional<uint64_t>>> SeedsOf(const CommandLine& line,
                                                             const v1::Generation& generation) {
  std::vector<std::optional<uint64_t>> seeds;
  if (const auto list = line.Get("seeds")) {
    for (const char* other : {"seed", "count"}) {
      if (line.Has(other)) return BadSeeds(*list, absl::StrCat("cannot be combined with --", other));
    }
    KINORA_ASSIGN_OR_RETURN(const std::vector<uint64_t> parsed, ParseSeeds(*list));
    seeds.assign(parsed.begin(), parsed.end());
    return seeds;
  }
  KINORA_ASSIGN_OR_RETURN(const auto count, line.GetInt("count", 1, kMostClips));
  for (int64_t i = 0; i < count.value_or(1); ++i) {
    if (!generation.has_seed()) {
      seeds.push_back(std::nullopt);
    } else if (generation.seed() > std::numeric_limits<uint64_t>::max() - i) {
      return absl::InvalidArgumentError("--count: the largest seed is 18446744073709551615");
    } else {
      seeds.push_back(generation.seed() + i);
    }
  }
  return seeds;
}

}  // namespace

absl::Span<const FlagSpec> BatchFlags() { return kFlags; }

absl::StatusOr<std::vector<v1::CreateVideoRequest>> RequestsOfBatch(const CommandLine& line,
                                                                    const v1::CreateVideoRequest& request) {
  KINORA_ASSIGN_OR_RETURN(const auto seeds, SeedsOf(line, request.generation()));
  std::vector<v1::CreateVideoRequest> requests(seeds.size(), request);
  for (size_t i = 0; i < seeds.size(); ++i) {
    if (seeds[i]) requests[i].mutable_generation()->set_seed(*seeds[i]);
    if (seeds.size() > 1) requests[i].set_request_id(absl::StrCat(request.request_id(), "-", i + 1));
  }
  return requests;
}

ExitStatus Batch::Run(const std::vector<v1::CreateVideoRequest>& requests, bool json) {
  ExitStatus result = kSuccess;
  const auto keep = [&result](ExitStatus status) { result = result == kSuccess ? status : result; };
  const int count = static_cast<int>(requests.size());
  for (int n = 1; n <= count; ++n) {
    const grpc::Status queued = Queue(requests, n - 1);
    const std::string id = IdAfter(n - 1);
    if (id.empty()) {  // no job is left to follow
      if (left()) {
        display_.Note(absl::StrCat(
            "left ", count - n + 1, " of ", count,
            " clips before they were queued; a job that was just accepted continues, and `kinora list` shows it"));
        keep(kUnreachable);
      } else if (!queued.ok() && !stopping()) {
        keep(ReportError(queued, json));
      }
      break;
    }
    display_.SetPart(n - 1, count);
    v1::Video video;
    const grpc::Status status = Follow(id, &video);
    const bool alone = !status.ok() && ExitStatusOf(status) != kUnreachable && !stopping();  // only this job's error
    if (alone) {
      keep(ReportError(status, json));
      continue;
    }
    if (!status.ok()) {
      if (status.error_code() != grpc::StatusCode::CANCELLED) keep(ReportError(status, json));
      display_.Note(absl::StrCat("left ", count - n + 1, " of ", count, " clips; `kinora list` shows their jobs"));
      keep(kUnreachable);
      break;
    }
    keep(on_end_(video, n));
  }
  halt_.Raise();  // nothing waits for a cancel any more
  absl::MutexLock lock(&mu_);
  return cancelled_ ? kCancelled : result;
}

std::string Batch::IdAfter(size_t ended) {
  absl::MutexLock lock(&mu_);
  ended_ = ended;
  return ended < ids_.size() ? ids_[ended] : "";
}

grpc::Status Batch::Queue(const std::vector<v1::CreateVideoRequest>& requests, size_t ended) {
  while (!stopping()) {
    size_t queued;
    {
      absl::MutexLock lock(&mu_);
      queued = ids_.size();
    }
    if (queued == requests.size()) break;
    v1::Video video;
    grpc::Status status = Create(requests[queued], queued == 0, &video);
    const bool exhausted = status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
    if (exhausted && queued > ended) break;  // there will be room once our next job has ended
    if (queued > 0 && IsQueueFull(status) && AwaitRoom(status)) continue;
    if (!status.ok()) return status;
    room_pause_.Reset();
    bool cancelled;
    {
      absl::MutexLock lock(&mu_);
      ids_.push_back(video.id());
      cancelled = cancelled_;
    }
    // Cancel may have missed this job; a second cancel has no effect.
    if (cancelled) CancelJobOrNote(connection_, video.id(), display_, halt_);
  }
  return grpc::Status::OK;
}

grpc::Status Batch::Create(const v1::CreateVideoRequest& request, bool first, v1::Video* video) {
  ServingWait wait(connection_, first ? watch_.serving_wait : watch_.reconnect,
                   [this](absl::string_view line) { display_.Note(line); });
  while (true) {
    grpc::Status status =
        Call<v1::VideoGeneration>(connection_, &v1::VideoGeneration::Stub::CreateVideo, request, video, halt_);
    if (!first && IsQueueFull(status)) return status;  // after the first job, the others wait without a limit
    const auto pause = wait.PauseAfter(status);
    if (pause && Pause(*pause)) {
      connection_.ForgetFailures();
      continue;
    }
    if (!cancelled() || !MayHaveArrived(connection_, status)) return status;
    // Repeats the request with the same request_id to get the job's id, so that it can be cancelled.
    return Call<v1::VideoGeneration>(connection_, &v1::VideoGeneration::Stub::CreateVideo, request, video, halt_);
  }
}

grpc::Status Batch::Follow(const std::string& id, v1::Video* video) {
  Watcher watcher(connection_, display_, watch_);
  {
    absl::MutexLock lock(&mu_);
    watcher_ = &watcher;
    if (left_) watcher.Leave();
  }
  grpc::Status status = watcher.Watch(id, 0, video);
  absl::MutexLock lock(&mu_);
  watcher_ = nullptr;
  return status;
}

bool Batch::AwaitRoom(const grpc::Status& full) {
  if (!std::exchange(room_noted_, true)) display_.Note("the server's queue is full; waiting");
  return Pause(QueuePause(full, room_pause_.Next()));
}

bool Batch::Pause(absl::Duration pause) {
  const auto stop = [this] {
    mu_.AssertHeld();
    return cancelled_ || left_;
  };
  absl::MutexLock lock(&mu_);
  return !mu_.AwaitWithTimeout(absl::Condition(&stop), pause);
}

void Batch::Cancel() {
  std::vector<std::string> waiting;
  {
    absl::MutexLock lock(&mu_);
    cancelled_ = true;
    waiting.assign(ids_.begin() + static_cast<std::ptrdiff_t>(ended_), ids_.end());
  }
  // In reverse order, so that no job starts because an earlier one ended.
  for (auto id = waiting.rbegin(); id != waiting.rend() && !halt_.raised(); ++id) {
    CancelJobOrNote(connection_, *id, display_, halt_);
  }
}

void Batch::Leave() {
  halt_.Raise();
  absl::MutexLock lock(&mu_);
  left_ = true;
  if (watcher_ != nullptr) watcher_->Leave();
}

}  // namespace kinora
