// Reads tests/weights/data/keys_{2.0,2.3}.txt: every tensor of a released model with its diffusers name, its
// single-file name and its shape, from the modules of the two reference implementations.
#ifndef KINORA_TESTS_WEIGHTS_KEY_LIST_H_
#define KINORA_TESTS_WEIGHTS_KEY_LIST_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kinora {

struct NamedTensor {
  std::string component;  // subfolder of the diffusers layout
  std::string diffusers;  // key in the component
  std::string single_file;
  std::vector<int64_t> shape;
};
std::vector<NamedTensor> ReadKeyList(std::string_view version);  // version is "2.0" or "2.3"; expands ranges

}  // namespace kinora

#endif  // KINORA_TESTS_WEIGHTS_KEY_LIST_H_
