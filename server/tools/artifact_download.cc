#include "server/tools/artifact_download.h"

#include <openssl/evp.h>

#include <memory>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace kinora {
namespace {

constexpr int kAttempts = 3;

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

// Reads until the stream ends; `received` and the digest grow with what was written.
grpc::Status ReadChunks(const Connection& connection, v1::DownloadArtifactRequest request,
                        absl::FunctionRef<absl::Status(std::string_view)> write, int64_t& received, Sha256& digest,
                        absl::Status* local) {
  const auto stub = v1::VideoGeneration::NewStub(connection.channel());
  const auto context = connection.StreamContext();
  request.set_offset(received);
  const auto reader = stub->DownloadArtifact(context.get(), request);
  v1::ArtifactChunk chunk;
  while (local->ok() && reader->Read(&chunk)) {
    if (chunk.offset() != received) {
      *local = absl::DataLossError(
          absl::StrCat(request.artifact_id(), ": the server sent byte ", chunk.offset(), " in place of ", received));
      break;
    }
    *local = write(chunk.data());
    digest.Update(chunk.data());
    received += static_cast<int64_t>(chunk.data().size());
  }
  if (!local->ok()) context->TryCancel();
  const grpc::Status status = reader->Finish();
  return local->ok() ? status : grpc::Status::OK;
}

}  // namespace

grpc::Status DownloadArtifact(const Connection& connection, const std::string& video_id, const v1::Artifact& artifact,
                              absl::FunctionRef<absl::Status(std::string_view)> write, absl::Status* local) {
  *local = absl::OkStatus();
  v1::DownloadArtifactRequest request;
  request.set_video_id(video_id);
  request.set_artifact_id(artifact.id());
  int64_t received = 0;
  Sha256 digest;
  grpc::Status status;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    status = ReadChunks(connection, request, write, received, digest, local);
    if (status.ok() || !IsUnreachable(status)) break;
  }
  if (!status.ok() || !local->ok()) return status;
  const std::string sha256 = digest.Hex();
  if (received != artifact.bytes() || (!artifact.sha256().empty() && sha256 != artifact.sha256())) {
    *local = absl::DataLossError(absl::StrCat(artifact.file_name(), ": received ", received, " bytes with sha256 ",
                                              sha256, ", expected ", artifact.bytes(), " with ", artifact.sha256()));
  }
  return status;
}

}  // namespace kinora
