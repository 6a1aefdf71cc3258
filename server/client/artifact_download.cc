#include "server/client/artifact_download.h"

#include <openssl/evp.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"
#include "server/client/backoff.h"
#include "server/client/serving_wait.h"

namespace kinora {
namespace {

// Bounds of the silence that ends an attempt: half of the patience, so that there is time for another.
constexpr absl::Duration kLeastSilence = absl::Seconds(5), kMostSilence = absl::Seconds(30);

// Whether a retry may succeed. ABORTED: the server closed the stream because the client read nothing for a while.
bool MayGoOn(const grpc::Status& status) {
  return (IsUnreachable(status) && MayPass(status)) || status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED ||
         status.error_code() == grpc::StatusCode::ABORTED;
}

// Cancels a call that receives nothing for `limit`.
class SilenceGuard {
 public:
  SilenceGuard(grpc::ClientContext& context, absl::Duration limit)
      : context_(context), limit_(limit), thread_([this] { Watch(); }) {}
  ~SilenceGuard() {
    {
      absl::MutexLock lock(&mu_);
      ended_ = true;
    }
    thread_.join();
  }
  void Listen() { Set(Clock::Steady().Now()); }  // measures silence from now on
  void Pause() { Set(absl::InfiniteFuture()); }  // while received data is written, which may take long
  bool struck() {
    absl::MutexLock lock(&mu_);
    return struck_;
  }

 private:
  void Set(absl::Time since) {
    absl::MutexLock lock(&mu_);
    since_ = since;
  }
  void Watch() {
    absl::MutexLock lock(&mu_);
    while (!mu_.AwaitWithTimeout(absl::Condition(&ended_), absl::Milliseconds(500))) {
      if (Clock::Steady().Now() - since_ < limit_) continue;
      struck_ = true;
      context_.TryCancel();
      return;
    }
  }

  grpc::ClientContext& context_;
  const absl::Duration limit_;
  absl::Mutex mu_;
  absl::Time since_ ABSL_GUARDED_BY(mu_) = Clock::Steady().Now();
  bool ended_ ABSL_GUARDED_BY(mu_) = false, struck_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) { EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr); }
  void Update(absl::string_view data) { EVP_DigestUpdate(context_.get(), data.data(), data.size()); }
  std::string Hex() {
    std::string digest(EVP_MAX_MD_SIZE, '\0');
    unsigned int size = 0;
    EVP_DigestFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(digest.data()), &size);
    return absl::BytesToHexString(digest.substr(0, size));
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

struct Received {  // by all attempts
  int64_t bytes = 0;
  absl::Time last = Clock::Steady().Now();  // when the last data was written
  Sha256 digest;
};

// Reads until the stream ends, or sends nothing for too long (DEADLINE_EXCEEDED).
grpc::Status ReadChunks(const Connection& connection, v1::DownloadArtifactRequest request,
                        const DownloadPatience& patience, absl::FunctionRef<absl::Status(std::string_view)> write,
                        Received& received, absl::Status* local) {
  const auto stub = v1::VideoGeneration::NewStub(connection.channel());
  const auto context = connection.StreamContext();
  const Halt::Call call(patience.halt, *context);
  const absl::Duration silence = std::clamp(patience.reconnect / 2, kLeastSilence, kMostSilence);
  SilenceGuard guard(*context, silence);
  request.set_offset(received.bytes);
  const auto reader = stub->DownloadArtifact(context.get(), request);
  v1::ArtifactChunk chunk;
  while (local->ok() && reader->Read(&chunk)) {
    guard.Pause();
    if (chunk.offset() != received.bytes) {
      *local = absl::DataLossError(absl::StrCat(request.artifact_id(), ": the server sent byte ", chunk.offset(),
                                                " in place of ", received.bytes));
      break;
    }
    *local = write(chunk.data());
    received.digest.Update(chunk.data());
    received.bytes += static_cast<int64_t>(chunk.data().size());
    received.last = Clock::Steady().Now();
    guard.Listen();
  }
  if (!local->ok()) context->TryCancel();
  grpc::Status status = reader->Finish();
  if (!local->ok()) return grpc::Status::OK;
  if (status.ok() || !guard.struck()) return status;
  return {grpc::StatusCode::DEADLINE_EXCEEDED,
          absl::StrCat("the server sent nothing of the file for ", absl::FormatDuration(silence))};
}

}  // namespace

grpc::Status DownloadArtifact(const Connection& connection, const std::string& video_id, const v1::Artifact& artifact,
                              DownloadPatience patience, absl::FunctionRef<absl::Status(std::string_view)> write,
                              absl::Status* local) {
  *local = absl::OkStatus();
  v1::DownloadArtifactRequest request;
  request.set_video_id(video_id);
  request.set_artifact_id(artifact.id());
  Received received;
  grpc::Status status;
  Backoff backoff(patience.reconnect, patience.halt);
  while (true) {
    const int64_t before = received.bytes;
    status = ReadChunks(connection, request, patience, write, received, local);
    if (status.ok() || !MayGoOn(status)) break;
    if (received.bytes > before) backoff.Reset(received.last);
    if (!backoff.Pause()) break;
    connection.ForgetFailures();
  }
  if (patience.halt.raised() && local->ok() && !status.ok()) return {grpc::StatusCode::CANCELLED, "left"};
  if (!status.ok() || !local->ok()) return status;
  const std::string sha256 = received.digest.Hex();
  if (received.bytes != artifact.bytes() || (!artifact.sha256().empty() && sha256 != artifact.sha256())) {
    *local =
        absl::DataLossError(absl::StrCat(artifact.file_name(), ": received ", received.bytes, " bytes with sha256 ",
                                         sha256, ", expected ", artifact.bytes(), " with ", artifact.sha256()));
  }
  return status;
}

}  // namespace kinora
