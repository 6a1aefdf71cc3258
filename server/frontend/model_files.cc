#include "server/frontend/model_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace kinora {
namespace {

constexpr int kMaxEntries = 10000;  // limit for a folder that is not a model's

std::string StateOf(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return absl::StrCat(path, " absent\n");
  // Includes the change time of the inode: permissions matter too.
  return absl::StrCat(path, " ", info.st_ino, " ", info.st_size, " ", info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec,
                      " ", info.st_ctim.tv_sec, ".", info.st_ctim.tv_nsec, "\n");
}

std::string StateWithin(const std::string& path) {
  namespace fs = std::filesystem;
  std::vector<std::string> states = {StateOf(path)};
  std::error_code error;
  fs::recursive_directory_iterator entry(path, fs::directory_options::skip_permission_denied, error);
  for (int i = 0; !error && entry != fs::recursive_directory_iterator() && i < kMaxEntries; ++i) {
    states.push_back(StateOf(entry->path().string()));
    entry.increment(error);
  }
  std::sort(states.begin(), states.end());
  std::string all;
  for (const std::string& state : states) absl::StrAppend(&all, state);
  return all;
}

// Returns the value of a --model argument. "=" before the first slash separates a name; a path may contain "=" only
// after it (ModelFiles::Parse).
std::string ValueOf(const std::string& argument) {
  const size_t equals = argument.find('=');
  return equals == std::string::npos || argument.find('/') < equals ? argument : argument.substr(equals + 1);
}

}  // namespace

std::string StateOfFiles(const std::vector<std::string>& arguments) {
  std::string all;
  for (const std::string& argument : arguments) {
    const std::string value = ValueOf(argument);
    absl::StrAppend(&all, StateWithin(value));
    if (absl::EndsWith(value, ".json")) {  // an index: its parts are in the same folder
      absl::StrAppend(&all, StateWithin(std::filesystem::path(value).parent_path().string()));
    }
    if (value.find(':') == std::string::npos) continue;
    for (const std::string& part : std::vector<std::string>(absl::StrSplit(value, ':'))) {  // FILE:STRENGTH, ID:FILE
      absl::StrAppend(&all, StateWithin(part));
    }
  }
  return all;
}

}  // namespace kinora
