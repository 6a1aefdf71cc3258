// Sends one artifact in chunks of the store's piece_bytes. Each chunk is read on a disk lane while no write is pending,
// and the file is open only for that read: a slow client holds one chunk of memory, but no thread and no descriptor. A
// client that does not accept a chunk within `download_idle` gets ABORTED; nothing else ends such a call.
#ifndef KINORA_SERVER_FRONTEND_API_DOWNLOAD_REACTOR_H_
#define KINORA_SERVER_FRONTEND_API_DOWNLOAD_REACTOR_H_

#include <grpcpp/server_context.h>

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/frontend/api/call_slots.h"
#include "server/frontend/api/reply_stream.h"
#include "server/frontend/api/service_context.h"

namespace kinora {

class DownloadReactor : public ReplyStream<v1::ArtifactChunk>, public std::enable_shared_from_this<DownloadReactor> {
 public:
  // The reactor keeps the gRPC call of `call` alive.
  static std::shared_ptr<DownloadReactor> Make(ServiceContext& context, grpc::CallbackServerContext& call);
  ~DownloadReactor() override;
  // Call once. The download counts against the limit of `client`.
  void Download(const v1::DownloadArtifactRequest& request, const std::string& client);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  DownloadReactor(ServiceContext& context, grpc_call* call);
  void OnVideo(const v1::Video& video, const v1::DownloadArtifactRequest& request);
  void SendNext();  // this and EndIfIdle run on disk_
  void EndIfIdle();
  absl::StatusOr<std::string> ReadNext();
  void Fail(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);

  ServiceContext& context_;
  grpc_call* const call_;
  Executor& disk_;                         // reads this artifact
  std::shared_ptr<DownloadReactor> self_;  // until OnDone
  // Set before the first SendNext; then used only on disk_.
  std::string key_;
  int64_t bytes_ = 0;   // as in the job's record
  int64_t offset_ = 0;  // of the next chunk

  absl::Mutex mu_;
  std::unique_ptr<CallSlots::Slot> slot_ ABSL_GUARDED_BY(mu_);
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  absl::Time write_began_ ABSL_GUARDED_BY(mu_) = absl::InfiniteFuture();  // of the pending write
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_DOWNLOAD_REACTOR_H_
