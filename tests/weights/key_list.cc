#include "tests/weights/key_list.h"

#include <fstream>
#include <sstream>

namespace kinora {
namespace {

void AddExpanded(NamedTensor tensor, std::vector<NamedTensor>* out) {
  const size_t open = tensor.diffusers.find('[');
  if (open == std::string::npos) {
    out->push_back(std::move(tensor));
    return;
  }
  const size_t close = tensor.diffusers.find(']');
  const std::string range = tensor.diffusers.substr(open + 1, close - open - 1);
  const int first = std::stoi(range), last = std::stoi(range.substr(range.find('-') + 1));
  for (int i = first; i <= last; ++i) {
    NamedTensor one = tensor;
    one.diffusers.replace(open, close - open + 1, std::to_string(i));
    one.single_file.replace(one.single_file.find('['), range.size() + 2, std::to_string(i));
    AddExpanded(std::move(one), out);
  }
}

}  // namespace

std::vector<NamedTensor> ReadKeyList(std::string_view version) {
  std::ifstream in(std::string(KINORA_SOURCE_DIR "/tests/weights/data/keys_").append(version).append(".txt"));
  std::vector<NamedTensor> tensors;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream fields(line);
    NamedTensor tensor;
    std::string shape;
    fields >> tensor.diffusers >> tensor.single_file >> shape;
    tensor.component = tensor.diffusers.substr(0, tensor.diffusers.find('/'));
    tensor.diffusers.erase(0, tensor.component.size() + 1);
    std::istringstream extents(shape);
    for (std::string extent; shape != "scalar" && std::getline(extents, extent, 'x');)
      tensor.shape.push_back(std::stoll(extent));
    AddExpanded(std::move(tensor), &tensors);
  }
  return tensors;
}

}  // namespace kinora
