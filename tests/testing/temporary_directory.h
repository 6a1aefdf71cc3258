// A directory under the test's TMPDIR that the object creates and removes.
#ifndef KINORA_TESTS_TESTING_TEMPORARY_DIRECTORY_H_
#define KINORA_TESTS_TESTING_TEMPORARY_DIRECTORY_H_

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "engine/base/check.h"

namespace kinora {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "kinora-test-XXXXXX").string();
    KINORA_CHECK(mkdtemp(name.data()) != nullptr) << name;
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  KINORA_CHECK(static_cast<bool>(file << bytes << std::flush)) << path;
}

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  KINORA_CHECK(file.good()) << path;
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_TEMPORARY_DIRECTORY_H_
