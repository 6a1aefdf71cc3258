#include "server/frontend/api/download_reactor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/common/status_details.h"

namespace kinora {
namespace {

constexpr int64_t kChunkBytes = 256 << 10;

}  // namespace

std::shared_ptr<DownloadReactor> DownloadReactor::Make(ServiceContext& context) {
  std::shared_ptr<DownloadReactor> reactor(new DownloadReactor(context));
  reactor->self_ = reactor;
  return reactor;
}

void DownloadReactor::Download(const v1::DownloadArtifactRequest& request) {
  context_.store.Get(request.video_id(), [reactor = shared_from_this(), request](absl::StatusOr<v1::Video> video) {
    if (!video.ok()) return reactor->Fail(video.status());
    reactor->OnVideo(*video, request);
  });
}

void DownloadReactor::OnVideo(const v1::Video& video, const v1::DownloadArtifactRequest& request) {
  if (video.state() != v1::Video::COMPLETED) {
    return Fail(absl::FailedPreconditionError(absl::StrCat(video.id(), " is ", v1::Video::State_Name(video.state()),
                                                           "; artifacts are there once it is COMPLETED")));
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
    return Fail(absl::OutOfRangeError(absl::StrCat("offset: not within 0..", found->bytes())));
  }
  const std::string key = absl::StrCat(video.id(), "/", video.attempt(), "/", found->id());
  context_.disk.Post([reactor = shared_from_this(), key, bytes = found->bytes(), offset = request.offset()] {
    reactor->OpenFile(key, bytes, offset);
  });
}

void DownloadReactor::OpenFile(const std::string& key, int64_t bytes, int64_t offset) {
  auto reader = context_.artifacts.Open(key);
  if (!reader.ok()) return Fail(reader.status());
  if ((*reader)->size() != bytes) {
    return Fail(absl::DataLossError(absl::StrCat(key, ": the file has ", (*reader)->size(), " bytes, its record says ",
                                                 bytes, "; delete the job and create it again")));
  }
  reader_ = *std::move(reader);
  offset_ = offset;
  SendNext();
}

void DownloadReactor::SendNext() {
  absl::StatusOr<std::string> bytes = reader_->Read(offset_, kChunkBytes);
  if (!bytes.ok()) return Fail(bytes.status());
  chunk_.set_offset(offset_);
  chunk_.set_total_bytes(reader_->size());
  offset_ += static_cast<int64_t>(bytes->size());
  chunk_.set_data(*std::move(bytes));
  absl::MutexLock lock(&mu_);
  if (finished_) return;
  if (offset_ == reader_->size()) {
    finished_ = true;
    StartWriteAndFinish(&chunk_);
  } else {
    StartWrite(&chunk_);
  }
}

void DownloadReactor::OnWriteDone(bool ok) {
  if (!ok) return Fail(absl::CancelledError("the client has gone"));
  context_.disk.Post([reactor = shared_from_this()] { reactor->SendNext(); });
}

void DownloadReactor::OnCancel() { Fail(absl::CancelledError("the client has gone")); }

void DownloadReactor::Fail(const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  FinishOnce(status);
}

void DownloadReactor::FinishOnce(const absl::Status& status) {
  if (std::exchange(finished_, true)) return;
  Finish(status);
}

void DownloadReactor::OnDone() { self_.reset(); }

}  // namespace kinora
