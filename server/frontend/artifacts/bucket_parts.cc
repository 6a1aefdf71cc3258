#include "server/frontend/artifacts/bucket_parts.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/request/input_refs.h"

namespace kinora {
namespace {

constexpr absl::Duration kOrphanAge = absl::Hours(1);

}  // namespace

absl::StatusOr<std::unique_ptr<InputParts>> BucketParts::Open(std::string path, S3ArtifactStore& store, Clock& date) {
  KINORA_RETURN_IF_ERROR(MakeFolder(path));
  return std::unique_ptr<InputParts>(new BucketParts(std::move(path), store, date));
}

absl::StatusOr<StoredFile> BucketParts::Commit(const std::string& sha256, const std::string& key) {
  return store_.Upload(key, PathOf(sha256), sha256);
}

int64_t BucketParts::Reconcile(const std::vector<InputRecord>& records) {
  std::vector<std::string> known;
  known.reserve(records.size());
  for (const InputRecord& record : records) known.push_back(InputKey(record.sha256));
  loop_.Post([this, known = std::move(known)] { RemoveOrphans(known); });
  return RemoveParts(records);
}

void BucketParts::RemoveOrphans(const std::vector<std::string>& known) {
  const absl::flat_hash_set<std::string> with_record(known.begin(), known.end());
  const auto stored = store_.DatedKeys(kInputsFolder);
  if (!stored.ok()) {
    return Log(Severity::kWarning, "inputs_not_compared", {{"why", std::string(stored.status().message())}});
  }
  for (const auto& [key, time] : *stored) {
    const std::string sha256 = key.substr(key.rfind('/') + 1);
    const bool is_input = IsSha256(sha256) && key == InputKey(sha256);  // not what others keep in the bucket
    const bool old = time != absl::InfinitePast() && time < date_.Now() - kOrphanAge;
    if (!is_input || !old || with_record.contains(key)) continue;
    const absl::Status deleted = store_.Delete(key);
    if (absl::IsCancelled(deleted)) return;
    Log(deleted.ok() ? Severity::kInfo : Severity::kWarning, deleted.ok() ? "input_removed" : "input_not_removed",
        {{"input", key}, {"why", deleted.ok() ? "it has no record" : std::string(deleted.message())}});
  }
}

}  // namespace kinora
