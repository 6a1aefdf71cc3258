#include "server/frontend/groups/artifact_intake.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/common/sha256.h"

namespace kinora {

// The received part of one artifact.
class ArtifactIntake::Part {
 public:
  explicit Part(std::unique_ptr<StagedArtifact> staged) : staged_(std::move(staged)) {}

  int64_t bytes() const { return bytes_; }

  absl::Status Append(const std::string& data) {
    KINORA_RETURN_IF_ERROR(staged_->Append(data));
    digest_.Update(data);
    bytes_ += static_cast<int64_t>(data.size());
    return absl::OkStatus();
  }

  absl::StatusOr<StoredFile> End(const std::string& sha256) {
    if (digest_.Hex() != sha256)
      return absl::DataLossError("its digest differs from the worker's: it was corrupted in transit");
    KINORA_ASSIGN_OR_RETURN(StoredFile stored, staged_->Commit());
    if (stored.sha256 != sha256)
      return absl::DataLossError("its digest differs from the worker's: it was corrupted on disk");
    return stored;
  }

 private:
  const std::unique_ptr<StagedArtifact> staged_;
  Sha256 digest_;
  int64_t bytes_ = 0;
};

ArtifactIntake::ArtifactIntake(ArtifactStore& store, Clock& steady)
    : store_(store), runs_(store.lanes()), lanes_(steady, store.lanes()) {}

ArtifactIntake::~ArtifactIntake() { lanes_.Stop(); }

void ArtifactIntake::Post(const std::string& key, absl::AnyInvocable<void(Runs& runs)> task) {
  const size_t lane = lanes_.IndexOf(key);
  lanes_.At(lane).Post([&runs = runs_[lane], task = std::move(task)]() mutable { task(runs); });
}

void ArtifactIntake::Take(const std::string& key, v1::UploadChunk chunk, Done<std::optional<StoredFile>> done) {
  Post(key, [this, key, chunk = std::move(chunk), done = std::move(done)](Runs& runs) mutable {
    absl::StatusOr<std::optional<StoredFile>> taken = Write(runs, key, chunk);
    if (!taken.ok()) {
      Log(Severity::kWarning, "artifact_not_taken",
          {{"key", absl::StrCat(key, "/", chunk.name())}, {"why", std::string(taken.status().message())}});
    }
    const auto run = runs.find(key);
    const bool ends = (!taken.ok() || taken->has_value()) && run != runs.end() && run->second.name == chunk.name();
    if (ends) run->second.part.reset();
    if (ends && !taken.ok()) run->second.names.erase(chunk.name());
    done(std::move(taken));
  });
}

void ArtifactIntake::Release(const std::string& key, const std::string& name) {
  Post(key, [key, name](Runs& runs) {
    if (const auto run = runs.find(key); run != runs.end()) run->second.names.erase(name);
  });
}

void ArtifactIntake::Drop(const std::string& key) {
  {
    absl::MutexLock lock(&mu_);
    ++dropped_[key];
  }
  Post(key, [this, key](Runs& runs) {
    runs.erase(key);
    absl::MutexLock lock(&mu_);
    if (--dropped_[key] == 0) dropped_.erase(key);
  });
}

bool ArtifactIntake::IsDropped(const std::string& key) {
  absl::MutexLock lock(&mu_);
  return dropped_.contains(key);
}

absl::Status ArtifactIntake::Begin(const std::string& key, const std::string& name, Artifacts& run) {
  if (!run.names.contains(name) && run.names.size() == kMostNames) {
    return absl::FailedPreconditionError(absl::StrCat("name: a run has at most ", kMostNames, " artifacts"));
  }
  KINORA_ASSIGN_OR_RETURN(std::unique_ptr<StagedArtifact> staged, store_.Begin(absl::StrCat(key, "/", name)));
  run.part = std::make_unique<Part>(std::move(staged));
  run.names.insert(name);
  run.name = name;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<StoredFile>> ArtifactIntake::Write(Runs& runs, const std::string& key,
                                                                const v1::UploadChunk& chunk) {
  Artifacts& run = runs[key];
  std::unique_ptr<Part>& part = run.part;
  if (part != nullptr && run.name != chunk.name()) {
    if (chunk.offset() != 0) {
      return absl::FailedPreconditionError(absl::StrCat("name: artifact ", run.name, " is not complete yet"));
    }
    run.names.erase(run.name);  // the worker has given it up
    part.reset();
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
  if (stored.ok() && !IsDropped(key)) return *std::move(stored);
  if (stored.ok()) {  // nobody would delete it any more
    store_.Delete(absl::StrCat(key, "/", chunk.name())).IgnoreError();
    return absl::AbortedError(absl::StrCat("artifact ", chunk.name(), ": its run has ended"));
  }
  if (!absl::IsDataLoss(stored.status())) return stored.status();
  store_.Delete(absl::StrCat(key, "/", chunk.name())).IgnoreError();  // in case it was committed
  return absl::DataLossError(absl::StrCat("artifact ", chunk.name(), ": ", std::string(stored.status().message())));
}

}  // namespace kinora
