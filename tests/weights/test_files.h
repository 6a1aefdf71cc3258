// Files that a test writes, in a temporary folder that is removed afterwards.
#ifndef KINORA_TESTS_WEIGHTS_TEST_FILES_H_
#define KINORA_TESTS_WEIGHTS_TEST_FILES_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace kinora {

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::path(testing::TempDir()) / "kinora_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }

  std::string File(std::string_view name) const { return (path_ / name).string(); }
  // Writes `bytes`, creating parent folders, and returns the path.
  std::string Write(std::string_view name, std::string_view bytes) const {
    const std::filesystem::path path = path_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }

 private:
  std::filesystem::path path_;
};

// Returns the bytes of a safetensors file: length, header and data.
inline std::string RawSafetensors(std::string_view header, std::string_view data) {
  std::string file(8, '\0');
  for (int i = 0; i < 8; ++i) file[i] = static_cast<char>(static_cast<uint64_t>(header.size()) >> (8 * i));
  file.append(header);
  file.append(data);
  return file;
}

}  // namespace kinora

#endif  // KINORA_TESTS_WEIGHTS_TEST_FILES_H_
