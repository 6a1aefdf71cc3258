// Safetensors files of which only the names of the tensors and the metadata matter.
#ifndef KINORA_TESTS_WEIGHTS_NAMED_FILES_H_
#define KINORA_TESTS_WEIGHTS_NAMED_FILES_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/weights/safetensors.h"
#include "tests/testing/status_matchers.h"

namespace kinora {

// Writes a file of one-byte tensors with these names, and the folders above it.
inline void WriteNames(const std::string& path, const std::vector<std::string>& names,
                       const std::map<std::string, std::string>& metadata = {}) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  uint8_t byte = 1;
  std::vector<std::pair<std::string, Tensor>> tensors;
  tensors.reserve(names.size());
  for (const std::string& name : names) tensors.emplace_back(name, Tensor(DType::kU8, {1}, &byte));
  ASSERT_THAT(WriteSafetensors(path, tensors, metadata), IsOk());
}

}  // namespace kinora

#endif  // KINORA_TESTS_WEIGHTS_NAMED_FILES_H_
