#include "server/common/artifact_writer.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"

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
  return store_.ForClients(status, file_, name_);
}

}  // namespace kinora
