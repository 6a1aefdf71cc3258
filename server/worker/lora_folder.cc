#include "server/worker/lora_folder.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/worker/model_digests.h"

namespace kinora {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExtension = ".safetensors";
constexpr size_t kMostIdBytes = 128;
constexpr size_t kMostSaid = 20;  // refusals that a look logs one by one

std::string IdOf(const std::string& name) { return name.substr(0, name.size() - kExtension.size()); }

// The file that `path` leads to, which must lie in `folder`.
absl::StatusOr<std::string> FileWithin(const std::string& folder, const std::string& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error), root = error ? fs::path() : fs::canonical(folder, error);
  if (error) return absl::NotFoundError("it leads nowhere");
  if (std::mismatch(root.begin(), root.end(), real.begin(), real.end()).first != root.end()) {
    return absl::PermissionDeniedError(absl::StrCat("it is a link to ", absl::CHexEscape(real.string()),
                                                    ", outside of the folder; copy or move the file itself"));
  }
  if (!fs::is_regular_file(real, error)) return absl::InvalidArgumentError("not a regular file");
  return real.string();
}

// What is parsed before anything else is known of the file.
absl::Status CheckHeaderBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  unsigned char start[8] = {};
  file.read(reinterpret_cast<char*>(start), sizeof start);
  if (!file) return absl::OkStatus();  // too short: said when it is opened
  uint64_t bytes = 0;
  for (int i = 7; i >= 0; --i) bytes = bytes << 8 | start[i];
  if (bytes <= static_cast<uint64_t>(LoraFolder::kMostHeaderBytes)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("header of ", bytes, " bytes, at most ", LoraFolder::kMostHeaderBytes, " are read of a LoRA"));
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
  if (stat(path.c_str(), &info) != 0) return {};
  const auto nanoseconds = [](const timespec& t) { return t.tv_sec * int64_t{1'000'000'000} + t.tv_nsec; };
  return {.device = info.st_dev,
          .inode = info.st_ino,
          .bytes = info.st_size,
          .modified = nanoseconds(info.st_mtim),
          .changed = nanoseconds(info.st_ctim)};
}

// Of the folder's LoRAs. A folder that has gone is empty; one that cannot be read holds what it did.
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
    }
    refused_.erase(file->first);
    files_.erase(file);
  }
  return changed;
}

bool LoraFolder::Look() {
  const std::set<std::string> names = Names();
  bool changed = Forget(names);
  said_ = 0;
  size_t listed = this->listed(), waiting = 0;
  for (const std::string& name : names) {
    if (give_up_) return changed;
    const bool was = files_[name].lora != nullptr;
    changed |= Consider(name, listed);
    const File& file = files_[name];
    listed += static_cast<size_t>(file.lora != nullptr) - static_cast<size_t>(was);
    waiting += static_cast<size_t>(!file.judged && listed >= kMostListed);
  }
  if (said_ > kMostSaid) {
    Log(Severity::kWarning, "loras_refused", {{"more", static_cast<int64_t>(said_ - kMostSaid)}});
  }
  SayWaiting(waiting);
  return changed;
}

// True: it is listed and was not, or the other way round.
bool LoraFolder::Consider(const std::string& name, size_t listed) {
  File& file = files_[name];
  const Stamp now = StampOf(absl::StrCat(path_, "/", name));
  if (now != file.stamp) {  // new, or being written
    const bool was = file.lora != nullptr;
    refused_.erase(name);
    file = {.stamp = now};
    return was;
  }
  if (file.judged || listed >= kMostListed) return false;
  absl::StatusOr<std::shared_ptr<const Lora>> lora = Judge(name);
  const Stamp after = StampOf(absl::StrCat(path_, "/", name));
  if (after != now || absl::IsCancelled(lora.status()) || absl::IsUnavailable(lora.status())) {
    file.stamp = after;
    return false;
  }
  file.judged = true;
  if (!lora.ok()) {
    refused_[name] = std::string(lora.status().message());
    SayRefused(name);
    return false;
  }
  file.lora = *std::move(lora);
  Log(Severity::kInfo, "lora_listed", {{"id", IdOf(name)}, {"digest", file.lora->digest()}});
  return true;
}

absl::StatusOr<std::shared_ptr<const Lora>> LoraFolder::Judge(const std::string& name) {
  KINORA_RETURN_IF_ERROR(CheckId(IdOf(name)));
  KINORA_ASSIGN_OR_RETURN(const std::string path, FileWithin(path_, absl::StrCat(path_, "/", name)));
  KINORA_RETURN_IF_ERROR(CheckHeaderBytes(path));
  KINORA_RETURN_IF_ERROR(open_(path, {}).status());  // before all of a file is read that is none
  KINORA_ASSIGN_OR_RETURN(std::string digest, DigestOfFile(path, &give_up_));
  return open_(path, {.digest = std::move(digest)});
}

// What a client can name, also as --lora ID:STRENGTH.
absl::Status LoraFolder::CheckId(const std::string& id) const {
  const bool plain = std::all_of(id.begin(), id.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
  });
  if (!plain || id.size() > kMostIdBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("its name is to be an id: letters, digits, \"-\", \"_\" and \".\", at most ", kMostIdBytes));
  }
  if (!taken_.contains(id)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the id ", id, " is that of a LoRA that `model` names; rename it"));
}

void LoraFolder::SayRefused(const std::string& name) {
  if (++said_ > kMostSaid) return;
  Log(Severity::kWarning, "lora_refused", {{"file", absl::CHexEscape(name)}, {"why", refused_[name]}});
}

void LoraFolder::SayWaiting(size_t waiting) {
  if (waiting == std::exchange(waiting_, waiting) || waiting == 0) return;
  Log(Severity::kWarning, "loras_not_listed",
      {{"files", static_cast<int64_t>(waiting)},
       {"why", absl::StrCat("there are ", kMostListed, " in the folder before them, the most that are listed")}});
}

Loras LoraFolder::loras() const {
  Loras loras;
  for (const auto& [name, file] : files_) {
    if (file.lora != nullptr) loras.emplace(IdOf(name), file.lora);
  }
  return loras;
}

size_t LoraFolder::listed() const {
  return static_cast<size_t>(
      std::count_if(files_.begin(), files_.end(), [](const auto& file) { return file.second.lora != nullptr; }));
}

}  // namespace kinora
