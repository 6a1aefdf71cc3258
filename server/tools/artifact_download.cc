#include "server/tools/artifact_download.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace kinora {
namespace {

constexpr int kAttempts = 3;

absl::Status FileError(absl::string_view what, const std::string& path) {
  return absl::InternalError(absl::StrCat(what, " ", path, ": ", std::strerror(errno)));
}

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

absl::Status WriteAll(int fd, absl::string_view data, const std::string& path) {
  while (!data.empty()) {
    const ssize_t n = write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return FileError("writing", path);
    data.remove_prefix(n);
  }
  return absl::OkStatus();
}

// Reads until the stream ends; `received` and the digest grow with what was written.
grpc::Status ReadChunks(const Connection& connection, v1::DownloadArtifactRequest request, int fd,
                        const std::string& path, int64_t& received, Sha256& digest, absl::Status* local) {
  const auto stub = v1::VideoGeneration::NewStub(connection.channel());
  const auto context = connection.StreamContext();
  request.set_offset(received);
  const auto reader = stub->DownloadArtifact(context.get(), request);
  v1::ArtifactChunk chunk;
  while (local->ok() && reader->Read(&chunk)) {
    if (chunk.offset() != received) {
      *local =
          absl::DataLossError(absl::StrCat(path, ": the server sent byte ", chunk.offset(), " in place of ", received));
      break;
    }
    *local = WriteAll(fd, chunk.data(), path);
    digest.Update(chunk.data());
    received += static_cast<int64_t>(chunk.data().size());
  }
  if (!local->ok()) context->TryCancel();
  const grpc::Status status = reader->Finish();
  return local->ok() ? status : grpc::Status::OK;
}

}  // namespace

grpc::Status DownloadArtifact(const Connection& connection, const std::string& video_id, const v1::Artifact& artifact,
                              const std::string& path, absl::Status* local) {
  *local = absl::OkStatus();
  // A name of its own: two clients may be asked to write one path.
  std::random_device random;
  const std::string part = absl::StrCat(path, ".", absl::Hex(random(), absl::kZeroPad8), ".part");
  const int fd = open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) {
    *local = FileError("creating", part);
    return grpc::Status::OK;
  }
  bool kept = false;
  const absl::Cleanup close_file = [&] {
    close(fd);
    if (!kept) unlink(part.c_str());
  };

  v1::DownloadArtifactRequest request;
  request.set_video_id(video_id);
  request.set_artifact_id(artifact.id());
  int64_t received = 0;
  Sha256 digest;
  grpc::Status status;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    status = ReadChunks(connection, request, fd, part, received, digest, local);
    if (status.ok() || !IsUnreachable(status)) break;
  }
  if (!status.ok() || !local->ok()) return status;
  const std::string sha256 = digest.Hex();
  if (received != artifact.bytes() || (!artifact.sha256().empty() && sha256 != artifact.sha256())) {
    *local = absl::DataLossError(absl::StrCat(path, ": received ", received, " bytes with sha256 ", sha256,
                                              ", expected ", artifact.bytes(), " with ", artifact.sha256()));
  } else if (fsync(fd) != 0 || rename(part.c_str(), path.c_str()) != 0) {
    *local = FileError("finishing", path);
  } else {
    kept = true;
  }
  return status;
}

}  // namespace kinora
