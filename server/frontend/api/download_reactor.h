// Sends one artifact in chunks. Each is read on the disk's loop while nothing is being written, so a slow client holds
// one chunk of memory and no thread.
#ifndef KINORA_SERVER_FRONTEND_API_DOWNLOAD_REACTOR_H_
#define KINORA_SERVER_FRONTEND_API_DOWNLOAD_REACTOR_H_

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/frontend/api/reply_stream.h"
#include "server/frontend/api/service_context.h"

namespace kinora {

class DownloadReactor : public ReplyStream<v1::ArtifactChunk>, public std::enable_shared_from_this<DownloadReactor> {
 public:
  static std::shared_ptr<DownloadReactor> Make(ServiceContext& context);
  void Download(const v1::DownloadArtifactRequest& request);  // once
  void Fail(const absl::Status& status);                      // instead of Download

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  explicit DownloadReactor(ServiceContext& context) : context_(context) {}
  void OnVideo(const v1::Video& video, const v1::DownloadArtifactRequest& request);
  // These two run on the disk's loop. `bytes`: what the record says that the file has.
  void OpenFile(const std::string& key, int64_t bytes, int64_t offset);
  void SendNext();
  void FinishOnce(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  ServiceContext& context_;
  std::shared_ptr<DownloadReactor> self_;   // until OnDone
  std::unique_ptr<ArtifactReader> reader_;  // of the disk's loop
  int64_t offset_ = 0;                      // of the next chunk; the same
  v1::ArtifactChunk chunk_;                 // belongs to the write in progress

  absl::Mutex mu_;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_DOWNLOAD_REACTOR_H_
