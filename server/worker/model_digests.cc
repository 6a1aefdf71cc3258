#include "server/worker/model_digests.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/file_descriptor.h"
#include "engine/base/status_macros.h"
#include "engine/base/uninterrupted.h"
#include "server/common/file_error.h"
#include "server/common/sha256.h"

namespace kinora {

absl::StatusOr<std::string> DigestOfFile(const std::string& path, absl::FunctionRef<absl::Status()> go_on) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a named pipe must not block
  if (!file.ok()) return FileError(path, "open");
  return DigestOfOpenFile(path, file.get(), go_on);
}

absl::StatusOr<std::string> DigestOfOpenFile(const std::string& path, int fd, absl::FunctionRef<absl::Status()> go_on) {
  constexpr int64_t kPiece = 4 << 20;
  struct stat info {};
  if (fstat(fd, &info) != 0) return FileError(path, "read");
  if (!S_ISREG(info.st_mode)) {
    return OfFile(path, absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file")));
  }
  std::string buffer(kPiece, '\0');
  Sha256 sha256;
  for (int64_t done = 0; done < info.st_size;) {  // the file may grow meanwhile
    const auto most = static_cast<size_t>(std::min<int64_t>(kPiece, info.st_size - done));
    const ssize_t n = Uninterrupted([&] { return pread(fd, buffer.data(), most, done); });
    if (n < 0) return FileError(path, "read");
    if (n == 0)
      return OfFile(path, absl::UnavailableError(absl::StrCat(path, ": became shorter while it was being read")));
    sha256.Update(std::string_view(buffer.data(), n));
    done += n;
    KINORA_RETURN_IF_ERROR(go_on());
  }
  return absl::StrCat("sha256:", sha256.Hex());
}

ModelDigests::ModelDigests(const ModelFiles& files) : thread_([this, files] { result_ = Read(files); }) {}

ModelDigests::~ModelDigests() {
  give_up_ = true;
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<ModelDigests::Map> ModelDigests::Wait() {
  thread_.join();
  return result_;
}

absl::StatusOr<ModelDigests::Map> ModelDigests::Read(const ModelFiles& files) const {
  KINORA_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(files));
  std::vector<std::string> paths = checkpoint->paths();
  if (!files.distilled_lora.empty()) paths.push_back(files.distilled_lora);
  if (!checkpoint->tokenizer_model().empty()) paths.push_back(checkpoint->tokenizer_model());
  Map digests;
  for (const std::string& name : paths) {
    const std::filesystem::path path = std::filesystem::absolute(name).lexically_normal();
    std::filesystem::path folder = path.parent_path();
    std::string key = path.filename().string();
    for (; digests.contains(key) && folder.has_filename(); folder = folder.parent_path()) {
      key = (folder.filename() / key).string();
    }
    KINORA_ASSIGN_OR_RETURN(digests[key], DigestOf(name));
  }
  for (const ModelFiles::Lora& lora : files.loras) {
    KINORA_ASSIGN_OR_RETURN(digests[absl::StrCat("lora/", lora.id)], DigestOf(lora.path));
  }
  for (const auto& [component, text] : checkpoint->component_configs()) {
    digests[absl::StrCat(component, "/config.json")] = absl::StrCat("sha256:", Sha256Hex(text));
  }
  return digests;
}

absl::StatusOr<std::string> ModelDigests::DigestOf(const std::string& path) const {
  return DigestOfFile(path, [&] { return give_up_ ? absl::CancelledError(path) : absl::OkStatus(); });
}

absl::StatusOr<std::string> DigestOfHeaders(const ModelFiles& files, ModelDigests::Map* loras) {
  KINORA_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(files));
  Sha256 sha256;
  for (const std::string& part : files.parts()) {  // small enough to be read completely
    KINORA_ASSIGN_OR_RETURN(const std::string digest, DigestOfFile(part, [] { return absl::OkStatus(); }));
    for (const ModelFiles::Lora& lora : files.loras) {
      if (loras != nullptr && lora.path == part) (*loras)[absl::StrCat("lora/", lora.id)] = digest;
    }
    sha256.Update(absl::StrCat(std::filesystem::path(part).filename().string(), " ", digest, "\n"));
  }
  for (const std::string& path : checkpoint->paths()) {
    std::error_code error;
    const uintmax_t bytes = std::filesystem::file_size(path, error);
    std::ifstream file(path, std::ios::binary);
    uint64_t header_bytes = 0;  // little-endian, before the header
    file.read(reinterpret_cast<char*>(&header_bytes), sizeof header_bytes);
    if (!file || error || header_bytes > bytes) return OfFile(path, absl::UnavailableError(path + ": cannot be read"));
    std::string header(header_bytes, '\0');
    file.read(header.data(), static_cast<std::streamsize>(header.size()));
    if (!file) return OfFile(path, absl::UnavailableError(path + ": cannot be read"));
    sha256.Update(absl::StrCat(std::filesystem::path(path).filename().string(), " ", bytes, " ", header));
  }
  for (const ModelFiles::Lora& lora : files.loras) {  // the file of each id that a job may name
    sha256.Update(absl::StrCat("lora ", lora.id, " ", std::filesystem::path(lora.path).filename().string(), "\n"));
  }
  for (const auto& [component, text] : checkpoint->component_configs())
    sha256.Update(absl::StrCat(component, " ", text));
  if (!checkpoint->tokenizer_model().empty()) {
    std::ifstream file(checkpoint->tokenizer_model(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    sha256.Update(text);
  }
  return sha256.Hex();
}

}  // namespace kinora
