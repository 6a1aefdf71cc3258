#include "server/common/artifact_writer.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/base/check.h"
#include "server/common/status_details.h"

namespace kinora {

ArtifactWriter::~ArtifactWriter() {
  if (!file_.empty()) unlink(file_.c_str());  // already gone after Commit
}

absl::StatusOr<std::string> ArtifactWriter::Begin(const std::string& name) {
  KINORA_CHECK(file_.empty()) << name_ << " was begun before " << name;
  const absl::StatusOr<std::string> file = store_.TemporaryPath(absl::StrCat(prefix_, "/", name));
  if (!file.ok()) return ForClients(file.status());
  name_ = name;
  file_ = *file;
  return file_;
}

absl::StatusOr<StoredFile> ArtifactWriter::Commit() {
  KINORA_CHECK(!file_.empty());
  absl::StatusOr<StoredFile> stored = store_.Put(absl::StrCat(prefix_, "/", name_), file_);
  if (!stored.ok()) return ForClients(stored.status());
  return stored;
}

absl::Status ArtifactWriter::ForClients(const absl::Status& status) const {
  const std::string message(status.message());
  if (status.ok() || message.find(store_.root()) == std::string::npos) return status;
  std::string told = message;
  if (!file_.empty()) told = absl::StrReplaceAll(told, {{file_, name_}});
  told = absl::StrReplaceAll(told, {{store_.root(), "artifacts"}});
  const absl::Status named(status.code(), told);
  return absl::IsResourceExhausted(named) ? WithErrorInfo(named, "DISK_FULL", {{"retryable", "true"}}) : named;
}

}  // namespace kinora
