#include "server/frontend/model_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace kinora {
namespace {

constexpr int kMaxEntries = 10000;  // of a folder that is no model's

std::string StateOf(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return absl::StrCat(path, " absent\n");
  // The time of its status too: who may read it counts.
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

// What a model's argument names: a path may hold "=" too, but not before its first slash unless it means a name
// (ModelFiles::Parse).
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
    if (absl::EndsWith(value, ".json")) {  // an index: its parts lie beside it
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
