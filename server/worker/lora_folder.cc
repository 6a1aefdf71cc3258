#include "server/worker/lora_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/file_descriptor.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/weights/lora_values.h"
#include "server/common/file_error.h"
#include "server/worker/model_digests.h"

namespace kinora {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExtension = ".safetensors";
constexpr size_t kMostIdBytes = 128;
constexpr size_t kMostSaid = 20;  // rejections that one scan logs individually

std::string IdOf(const std::string& name) { return name.substr(0, name.size() - kExtension.size()); }

// Returns the real path of an open file.
absl::StatusOr<fs::path> PlaceOf(int fd) {
  std::error_code error;
  fs::path place = fs::read_symlink(absl::StrCat("/proc/self/fd/", fd), error);
  if (error) return absl::UnavailableError("its path cannot be read from /proc");
  return place;
}

// Opens the file that `path` leads to, which must be in `folder`. Opens it with O_PATH first, because opening something
// other than a file for reading can have effects, and reopens that descriptor, so that a replacement is never read.
absl::StatusOr<FileDescriptor> OpenWithin(const std::string& folder, const std::string& path) {
  const FileDescriptor found(open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!found.ok() && (errno == ENOENT || errno == ELOOP)) return absl::NotFoundError("it is a broken link");
  if (!found.ok()) return FileError("it", "open");
  KINORA_ASSIGN_OR_RETURN(const fs::path real, PlaceOf(found.get()));
  std::error_code error;
  const fs::path root = fs::canonical(folder, error);
  if (error) return absl::UnavailableError("the folder was removed");
  if (std::mismatch(root.begin(), root.end(), real.begin(), real.end()).first != root.end()) {
    return absl::PermissionDeniedError(absl::StrCat("it is a link to ", absl::CHexEscape(real.string()),
                                                    ", outside the folder; copy or move the file itself"));
  }
  struct stat info {};
  if (fstat(found.get(), &info) != 0) return FileError("it", "read");
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError("not a regular file");
  FileDescriptor file(
      open(absl::StrCat("/proc/self/fd/", found.get()).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.ok()) return FileError("it", "open");
  return file;
}

// To be called before the file is parsed.
absl::Status CheckSizes(int fd, int64_t bytes) {
  if (bytes > LoraFolder::kMostBytes) {
    return absl::InvalidArgumentError(absl::StrCat(bytes, " bytes; a LoRA may have at most ", LoraFolder::kMostBytes));
  }
  unsigned char start[8] = {};
  if (pread(fd, start, sizeof start, 0) != sizeof start) return absl::OkStatus();  // parsing it reports the error
  uint64_t header = 0;
  for (int i = 7; i >= 0; --i) header = header << 8 | start[i];
  if (header <= static_cast<uint64_t>(LoraFolder::kMostHeaderBytes)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("header of ", header, " bytes; a LoRA may have at most ", LoraFolder::kMostHeaderBytes));
}

}  // namespace

absl::Status LoraFolder::Check(const std::string& path) {
  std::error_code error;
  const fs::directory_iterator entries(path, error);
  if (!error) return absl::OkStatus();
  const std::string message = absl::StrCat("lora_folder: ", path, ": ", error.message());
  return error == std::errc::no_such_file_or_directory ? absl::NotFoundError(message)
                                                       : absl::InvalidArgumentError(message);
}

LoraFolder::Stamp LoraFolder::StampOf(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? StampOf(info) : Stamp{};
}

LoraFolder::Stamp LoraFolder::StampOf(const struct stat& info) {
  const auto nanoseconds = [](const timespec& t) { return t.tv_sec * int64_t{1'000'000'000} + t.tv_nsec; };
  return {.device = info.st_dev,
          .inode = info.st_ino,
          .bytes = info.st_size,
          .modified = nanoseconds(info.st_mtim),
          .changed = nanoseconds(info.st_ctim)};
}

// Returns the file names of the folder's LoRAs. A missing folder is empty; an unreadable one is taken as unchanged.
std::set<std::string> LoraFolder::Names() {
  std::set<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(path_, error), end; !error && entry != end; entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (name.starts_with('.') || !name.ends_with(kExtension) || names.size() == kMostFiles) continue;
    names.insert(std::move(name));
  }
  const bool gone = error == std::errc::no_such_file_or_directory;
  if (error && !unreadable_) {
    Log(Severity::kWarning, "lora_folder_unreadable", {{"folder", path_}, {"why", error.message()}});
  }
  unreadable_ = static_cast<bool>(error);
  if (!error || gone) return names;
  for (const auto& [name, file] : files_) names.insert(name);
  return names;
}

bool LoraFolder::Forget(const std::set<std::string>& names) {
  bool changed = false;
  for (auto it = files_.begin(); it != files_.end();) {
    const auto file = it++;
    if (names.contains(file->first)) continue;
    if (file->second.lora != nullptr) {
      Log(Severity::kInfo, "lora_removed", {{"id", IdOf(file->first)}, {"digest", file->second.lora->digest()}});
      changed = true;
      --listed_;
    }
    refused_.erase(file->first);
    files_.erase(file);
  }
  return changed;
}

bool LoraFolder::Look() {
  bool changed = Begin();
  while (more()) changed |= Next([] { return absl::OkStatus(); });
  return changed;
}

bool LoraFolder::Begin() {
  const std::set<std::string> names = Names();
  names_.assign(names.begin(), names.end());
  next_ = wait_ = said_ = 0;
  const bool changed = Forget(names);
  if (names_.empty()) End();
  return changed;
}

bool LoraFolder::Next(GoOn go_on) {
  const std::string name = names_[next_++];
  const bool changed = Consider(name, go_on);
  wait_ += static_cast<size_t>(!files_[name].judged && listed_ >= kMostListed);
  if (next_ == names_.size()) End();
  return changed;
}

void LoraFolder::End() {
  if (said_ > kMostSaid) {
    Log(Severity::kWarning, "loras_refused", {{"more", static_cast<int64_t>(said_ - kMostSaid)}});
  }
  SayWaiting(wait_);
}

bool LoraFolder::LookAt(const std::string& id, GoOn go_on) {
  const std::string name = Cat(id, kExtension);
  if (id.empty() || id.starts_with('.') || !CheckId(id).ok()) return false;
  if (!files_.contains(name) && StampOf(absl::StrCat(path_, "/", name)) == Stamp{}) return false;
  const bool changed = Consider(name, go_on);
  return Consider(name, go_on) || changed;  // a file is listed at the second look at the earliest
}

// Returns whether the file has been added to or removed from the list.
bool LoraFolder::Consider(const std::string& name, GoOn go_on) {
  File& file = files_[name];
  const Stamp now = StampOf(absl::StrCat(path_, "/", name));
  if (now != file.stamp) {  // new, or being written
    const bool was = file.lora != nullptr;
    listed_ -= static_cast<size_t>(was);
    refused_.erase(name);
    file = {.stamp = now};
    return was;
  }
  if (file.judged || listed_ >= kMostListed) return false;
  absl::StatusOr<std::shared_ptr<const Lora>> lora = Validate(name, now, go_on);
  const Stamp after = StampOf(absl::StrCat(path_, "/", name));
  if (after != now || absl::IsCancelled(lora.status()) || absl::IsUnavailable(lora.status())) {
    file.stamp = after;
    return false;
  }
  file.judged = true;
  if (!lora.ok()) {
    refused_[name] = std::string(lora.status().message().substr(0, kMostWhyBytes));
    SayRefused(name);
    return false;
  }
  file.lora = *std::move(lora);
  ++listed_;
  Log(Severity::kInfo, "lora_listed", {{"id", IdOf(name)}, {"digest", file.lora->digest()}});
  return true;
}

absl::StatusOr<std::shared_ptr<const Lora>> LoraFolder::Validate(const std::string& name, const Stamp& stamp,
                                                                 GoOn go_on) {
  const std::string path = absl::StrCat(path_, "/", name);
  KINORA_RETURN_IF_ERROR(CheckId(IdOf(name)));
  KINORA_ASSIGN_OR_RETURN(const FileDescriptor found, OpenWithin(path_, path));
  struct stat info {};
  if (fstat(found.get(), &info) != 0 || StampOf(info) != stamp)
    return absl::UnavailableError("it was replaced meanwhile");
  KINORA_RETURN_IF_ERROR(CheckSizes(found.get(), info.st_size));
  KINORA_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open(path, found.get()));
  KINORA_ASSIGN_OR_RETURN(const auto lora, open_(std::move(file)));  // before the digest, which reads the whole file
  KINORA_ASSIGN_OR_RETURN(std::string digest, DigestOfOpenFile(path, found.get(), [&] {
                            return give_up_ ? absl::CancelledError(path) : go_on();
                          }));
  // NaN or infinity would spoil every run.
  KINORA_RETURN_IF_ERROR(CheckLoraValues(*lora, [&] { return give_up_ ? absl::CancelledError(path) : go_on(); }));
  return lora->WithDigest(std::move(digest));
}

// An id must be usable in requests and in --lora ID:STRENGTH.
absl::Status LoraFolder::CheckId(const std::string& id) const {
  const bool plain = std::all_of(id.begin(), id.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
  });
  if (!plain || id.size() > kMostIdBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "its name must be an id of letters, digits, \"-\", \"_\" and \".\", at most ", kMostIdBytes, " bytes"));
  }
  if (!taken_.contains(id)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the id ", id, " belongs to a LoRA in `model`; rename the file"));
}

void LoraFolder::SayRefused(const std::string& name) {
  if (++said_ > kMostSaid) return;
  Log(Severity::kWarning, "lora_refused", {{"file", absl::CHexEscape(name)}, {"why", refused_[name]}});
}

void LoraFolder::SayWaiting(size_t waiting) {
  if (waiting == std::exchange(waiting_, waiting) || waiting == 0) return;
  Log(Severity::kWarning, "loras_not_listed",
      {{"files", static_cast<int64_t>(waiting)},
       {"why", absl::StrCat("the folder already has ", kMostListed, " LoRAs, the maximum")}});
}

Loras LoraFolder::loras() const {
  Loras loras;
  for (const auto& [name, file] : files_) {
    if (file.lora != nullptr) loras.emplace(IdOf(name), file.lora);
  }
  return loras;
}

}  // namespace kinora
