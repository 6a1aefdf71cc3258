#include "server/frontend/groups/artifact_intake.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/file_descriptor.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "engine/base/uninterrupted.h"
#include "server/common/artifact_writer.h"
#include "server/common/file_error.h"
#include "server/common/sha256.h"

namespace kinora {

// The received part of one artifact. Its destructor removes it unless it was committed.
class ArtifactIntake::Part {
 public:
  static absl::StatusOr<std::unique_ptr<Part>> Begin(DirectoryArtifactStore& store, const std::string& key,
                                                     const std::string& name) {
    auto part = std::unique_ptr<Part>(new Part(store, key));
    KINORA_ASSIGN_OR_RETURN(part->path_, part->writer_.Begin(name));
    part->fd_ = FileDescriptor(open(part->path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!part->fd_.ok()) return part->writer_.ForClients(FileError(part->path_, "create"));
    return part;
  }

  int64_t bytes() const { return bytes_; }

  absl::Status Append(const std::string& data) {
    for (size_t done = 0; done < data.size();) {
      const ssize_t n = Uninterrupted([&] { return write(fd_.get(), data.data() + done, data.size() - done); });
      if (n < 0) return writer_.ForClients(FileError(path_, "write"));
      done += static_cast<size_t>(n);
    }
    digest_.Update(data);
    bytes_ += static_cast<int64_t>(data.size());
    return absl::OkStatus();
  }

  absl::StatusOr<StoredFile> End(const std::string& sha256) {
    if (digest_.Hex() != sha256)
      return absl::DataLossError("its digest differs from the worker's: it was corrupted in transit");
    KINORA_ASSIGN_OR_RETURN(StoredFile stored, writer_.Commit());
    if (stored.sha256 != sha256)
      return absl::DataLossError("its digest differs from the worker's: it was corrupted on disk");
    return stored;
  }

 private:
  Part(DirectoryArtifactStore& store, const std::string& key) : writer_(store, key) {}

  ArtifactWriter writer_;
  std::string path_;
  FileDescriptor fd_;
  Sha256 digest_;
  int64_t bytes_ = 0;
};

ArtifactIntake::ArtifactIntake(DirectoryArtifactStore& store, Clock& steady) : store_(store), loop_(steady) {}

ArtifactIntake::~ArtifactIntake() { loop_.Stop(); }

void ArtifactIntake::Take(const std::string& key, v1::UploadChunk chunk, Done<std::optional<StoredFile>> done) {
  loop_.Post([this, key, chunk = std::move(chunk), done = std::move(done)]() mutable {
    absl::StatusOr<std::optional<StoredFile>> taken = Write(key, chunk);
    if (!taken.ok()) {
      Log(Severity::kWarning, "artifact_not_taken",
          {{"key", absl::StrCat(key, "/", chunk.name())}, {"why", std::string(taken.status().message())}});
    }
    const auto run = runs_.find(key);
    const bool ends = (!taken.ok() || taken->has_value()) && run != runs_.end() && run->second.name == chunk.name();
    if (ends) run->second.part.reset();
    done(std::move(taken));
  });
}

void ArtifactIntake::Drop(const std::string& key) {
  loop_.Post([this, key] { runs_.erase(key); });
}

absl::Status ArtifactIntake::Begin(const std::string& key, const std::string& name, Artifacts& run) {
  if (!run.names.contains(name) && run.names.size() == kMostNames) {
    return absl::FailedPreconditionError(absl::StrCat("name: a run has at most ", kMostNames, " artifacts"));
  }
  KINORA_ASSIGN_OR_RETURN(run.part, Part::Begin(store_, key, name));
  run.names.insert(name);
  run.name = name;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<StoredFile>> ArtifactIntake::Write(const std::string& key, const v1::UploadChunk& chunk) {
  Artifacts& run = runs_[key];
  std::unique_ptr<Part>& part = run.part;
  if (part != nullptr && run.name != chunk.name()) {
    return absl::FailedPreconditionError(absl::StrCat("name: artifact ", run.name, " is not complete yet"));
  }
  if (part == nullptr && chunk.offset() == 0) KINORA_RETURN_IF_ERROR(Begin(key, chunk.name(), run));
  const int64_t awaited = part == nullptr ? 0 : part->bytes();
  if (chunk.offset() != awaited) {
    return absl::DataLossError(absl::StrCat("artifact ", chunk.name(), ": received bytes from offset ", chunk.offset(),
                                            " instead of ", awaited));
  }
  KINORA_RETURN_IF_ERROR(part->Append(chunk.data()));
  if (chunk.sha256().empty()) return std::nullopt;
  absl::StatusOr<StoredFile> stored = part->End(chunk.sha256());
  if (stored.ok()) return *std::move(stored);
  if (!absl::IsDataLoss(stored.status())) return stored.status();
  store_.Delete(absl::StrCat(key, "/", chunk.name())).IgnoreError();  // in case it was committed
  return absl::DataLossError(absl::StrCat("artifact ", chunk.name(), ": ", std::string(stored.status().message())));
}

}  // namespace kinora
