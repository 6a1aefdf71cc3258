// The unfinished files beside a path: PATH.XXXX.part.
#ifndef KINORA_TESTS_TESTING_PART_FILES_H_
#define KINORA_TESTS_TESTING_PART_FILES_H_

#include <filesystem>
#include <string>
#include <vector>

namespace kinora {

inline std::vector<std::string> PartFiles(const std::string& path) {
  std::vector<std::string> found;
  const std::filesystem::path target(path);
  for (const auto& entry : std::filesystem::directory_iterator(target.parent_path())) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(target.filename().string() + ".") && name.ends_with(".part")) found.push_back(name);
  }
  return found;
}

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_PART_FILES_H_
