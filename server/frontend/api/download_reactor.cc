#include "server/frontend/api/download_reactor.h"

#include <grpc/grpc.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "server/common/status_details.h"
#include "server/frontend/jobs/job_files.h"

namespace kinora {
DownloadReactor::DownloadReactor(ServiceContext& context, grpc_call* call)
    : context_(context), call_(call), disk_(context.disk.Next()) {
  grpc_call_ref(call_);
}

DownloadReactor::~DownloadReactor() { grpc_call_unref(call_); }

std::shared_ptr<DownloadReactor> DownloadReactor::Make(ServiceContext& context, grpc::CallbackServerContext& call) {
  std::shared_ptr<DownloadReactor> reactor(new DownloadReactor(context, call.c_call()));
  reactor->self_ = reactor;
  return reactor;
}

void DownloadReactor::Download(const v1::DownloadArtifactRequest& request, const std::string& client) {
  auto slot = context_.downloads.Take(client);
  if (!slot.ok()) return Fail(slot.status());
  {
    absl::MutexLock lock(&mu_);
    slot_ = *std::move(slot);
  }
  context_.store.Get(request.video_id(), [reactor = shared_from_this(), request](absl::StatusOr<v1::Video> video) {
    if (!video.ok()) return reactor->Fail(video.status());
    reactor->OnVideo(*video, request);
  });
}

void DownloadReactor::OnVideo(const v1::Video& video, const v1::DownloadArtifactRequest& request) {
  if (video.state() != v1::Video::COMPLETED) {
    return Fail(absl::FailedPreconditionError(absl::StrCat(video.id(), " is ", v1::Video::State_Name(video.state()),
                                                           "; its artifacts are available once it is COMPLETED")));
  }
  const auto found =
      std::find_if(video.artifacts().begin(), video.artifacts().end(), [&](const v1::Artifact& artifact) {
        return request.artifact_id().empty() || artifact.id() == request.artifact_id();
      });
  if (found == video.artifacts().end()) {
    const std::string ids = absl::StrJoin(video.artifacts(), ", ", [](std::string* out, const v1::Artifact& artifact) {
      absl::StrAppend(out, "\"", artifact.id(), "\"");
    });
    return Fail(absl::NotFoundError(absl::StrCat("artifact_id: ", video.id(), " has ", ids)));
  }
  if (request.offset() < 0 || request.offset() > found->bytes()) {
    return Fail(absl::OutOfRangeError(absl::StrCat("offset: must be within 0..", found->bytes())));
  }
  key_ = ArtifactKey(video, *found);
  bytes_ = found->bytes();
  offset_ = request.offset();
  disk_.Post([reactor = shared_from_this()] {
    reactor->SendNext();
    reactor->EndIfIdle();
  });
}

absl::StatusOr<std::string> DownloadReactor::ReadNext() {
  KINORA_ASSIGN_OR_RETURN(ArtifactPiece piece,
                          context_.artifacts.Read(key_, offset_, context_.artifacts.piece_bytes()));
  if (piece.size != bytes_) {
    return absl::DataLossError(absl::StrCat(key_, ": the file has ", piece.size, " bytes, but its record says ", bytes_,
                                            "; delete the job and create it again"));
  }
  return std::move(piece.data);
}

void DownloadReactor::SendNext() {
  absl::StatusOr<std::string> data = ReadNext();
  if (!data.ok()) return Fail(data.status());
  v1::ArtifactChunk chunk;
  chunk.set_offset(offset_);
  chunk.set_total_bytes(bytes_);
  offset_ += static_cast<int64_t>(data->size());
  chunk.set_data(*std::move(data));
  absl::MutexLock lock(&mu_);
  if (finished_) return;
  write_began_ = disk_.Now();
  if (offset_ == bytes_) {
    finished_ = true;
    StartWriteAndFinish(&chunk);
  } else {
    StartWrite(&chunk);
  }
}

// Finish would wait for the chunk that the client does not accept, so this cancels the call; a client that still
// listens gets the status. Called without the lock, because gRPC may call OnCancel from within.
void DownloadReactor::EndIfIdle() {
  const absl::Time now = disk_.Now();
  {
    absl::MutexLock lock(&mu_);
    if (done_) return;
    const absl::Time end = std::min(write_began_, now) + context_.download_idle;
    if (now < end || write_began_ > now) {
      const auto again = [weak = weak_from_this()] {
        if (const auto reactor = weak.lock()) reactor->EndIfIdle();
      };
      return disk_.PostAt(end, again);
    }
  }
  const std::string why = absl::StrCat("download_idle_seconds: the client read nothing for ",
                                       absl::FormatDuration(context_.download_idle), "; resume from the last offset");
  grpc_call_cancel_with_status(call_, GRPC_STATUS_ABORTED, why.c_str(), nullptr);
}

void DownloadReactor::OnWriteDone(bool ok) {
  if (!ok) return Fail(absl::CancelledError("the client disconnected"));
  {
    absl::MutexLock lock(&mu_);
    write_began_ = absl::InfiniteFuture();
  }
  disk_.Post([reactor = shared_from_this()] { reactor->SendNext(); });
}

void DownloadReactor::OnCancel() { Fail(absl::CancelledError("the client disconnected")); }

void DownloadReactor::Fail(const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  if (!std::exchange(finished_, true)) Finish(status);
}

void DownloadReactor::OnDone() {
  {
    absl::MutexLock lock(&mu_);
    done_ = true;
    slot_.reset();
  }
  self_.reset();
}

}  // namespace kinora
