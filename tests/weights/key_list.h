// tests/weights/data/keys_{2.0,2.3}.txt: every tensor of a released model under its diffusers and its single-file name,
// with its shape, as the two reference implementations' own modules name them.
#ifndef KINORA_TESTS_WEIGHTS_KEY_LIST_H_
#define KINORA_TESTS_WEIGHTS_KEY_LIST_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kinora {

struct NamedTensor {
  std::string component;  // of the diffusers folder
  std::string diffusers;  // key in it
  std::string single_file;
  std::vector<int64_t> shape;
};
std::vector<NamedTensor> ReadKeyList(std::string_view version);  // "2.0" or "2.3"; ranges expanded

}  // namespace kinora

#endif  // KINORA_TESTS_WEIGHTS_KEY_LIST_H_
