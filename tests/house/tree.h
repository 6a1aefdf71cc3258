// The text files of this tree, for tests of the house rules.
#ifndef KINORA_TESTS_HOUSE_TREE_H_
#define KINORA_TESTS_HOUSE_TREE_H_

#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

namespace kinora {

struct Source {
  std::string path;  // relative to the tree
  std::vector<std::string> lines{};
};

// Returns the files below the folders `tops` whose path `wanted` accepts, in no particular order. The folders must
// exist.
inline std::vector<Source> ReadTree(std::initializer_list<const char*> tops,
                                    const std::function<bool(const std::filesystem::path&)>& wanted) {
  namespace fs = std::filesystem;
  const fs::path root = KINORA_SOURCE_DIR;
  std::vector<Source> sources;
  for (const char* top : tops) {
    if (!fs::exists(root / top)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      if (!entry.is_regular_file() || !wanted(entry.path())) continue;
      Source source{.path = fs::relative(entry.path(), root).string()};
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);) source.lines.push_back(line);
      sources.push_back(std::move(source));
    }
  }
  return sources;
}

// The C++ files, read once.
inline const std::vector<Source>& CppSources() {
  static const auto* sources =
      new std::vector<Source>(ReadTree({"engine", "server", "kernels", "tests"}, [](const std::filesystem::path& path) {
        const std::string extension = path.extension().string();
        return extension == ".h" || extension == ".cc" || extension == ".inc" || extension == ".cu" ||
               extension == ".cuh";
      }));
  return *sources;
}

}  // namespace kinora

#endif  // KINORA_TESTS_HOUSE_TREE_H_
