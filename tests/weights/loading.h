// Fixture for tests of WeightLoader: a checkpoint of a few tensors, and functions to read back weights.
#ifndef KINORA_TESTS_WEIGHTS_LOADING_H_
#define KINORA_TESTS_WEIGHTS_LOADING_H_

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/weights/weight_loader.h"
#include "tests/testing/status_matchers.h"
#include "tests/weights/test_files.h"

namespace kinora {

using Floats = std::vector<float>;

// Consecutive integers: exact in every format if small, and all different.
inline Floats Numbers(int64_t count, float start = 1) {
  Floats values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = start + static_cast<float>((i * 37) % 101) - 50;
  return values;
}

class Loading : public testing::Test {
 protected:
  Loading() : backend_(*OpenBackend("cpu", {})), mesh_(Mesh::Single()) {}

  void Add(const std::string& name, Shape shape, Floats values) {
    values_.push_back(std::move(values));
    tensors_.emplace_back(name, Tensor(DType::kF32, shape, values_.back().data()));
  }
  void AddBytes(const std::string& name, DType dtype, Shape shape, std::vector<uint8_t> bytes) {
    bytes_.push_back(std::move(bytes));
    tensors_.emplace_back(name, Tensor(dtype, shape, bytes_.back().data()));
  }
  // Writes the added tensors to a file and opens it. All names are the transformer's.
  WeightLoader Open(DType precision = DType::kF32) { return Open(*mesh_, precision); }
  WeightLoader Open(const Mesh& mesh, DType precision = DType::kF32) {
    auto named = tensors_;
    for (auto& [name, tensor] : named) name.insert(0, "model.diffusion_model.");
    EXPECT_THAT(WriteSafetensors(folder_.File("m.safetensors"), named), IsOk());
    auto checkpoint = Checkpoint::Open({.paths = {folder_.File("m.safetensors")}});
    EXPECT_THAT(checkpoint, IsOk());
    auto loader = WeightLoader::Open(*checkpoint, mesh, *backend_, precision);
    EXPECT_THAT(loader, IsOk());
    return loader->Under("transformer");
  }
  // Returns the [out, in] matrix and the bias of a linear layer, found by applying it to the unit vectors and to zero.
  Floats Matrix(const Weight& w, Floats* bias = nullptr) {
    Floats x((w.in() + 1) * w.in(), 0), y((w.in() + 1) * w.out());
    for (int64_t i = 0; i < w.in(); ++i) x[i * w.in() + i] = 1;
    backend_->ops().Matmul(Tensor(DType::kF32, {w.in() + 1, w.in()}, x.data()), w, {},
                           Tensor(DType::kF32, {w.in() + 1, w.out()}, y.data()));
    EXPECT_THAT(backend_->ops().stream().Synchronize(), IsOk());
    const float* zero = y.data() + w.in() * w.out();
    Floats matrix(w.out() * w.in());
    for (int64_t o = 0; o < w.out(); ++o) {
      for (int64_t i = 0; i < w.in(); ++i) matrix[o * w.in() + i] = y[i * w.out() + o] - zero[o];
    }
    if (bias != nullptr) bias->assign(zero, zero + w.out());
    return matrix;
  }
  static Floats Values(const Tensor& tensor) {
    Floats values(tensor.elements());
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      values[i] = tensor.dtype() == DType::kF32 ? tensor.data<float>()[i] : static_cast<float>(tensor.data<bf16>()[i]);
    }
    return values;
  }

  TempFolder folder_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Mesh> mesh_;
  std::deque<Floats> values_;
  std::deque<std::vector<uint8_t>> bytes_;
  std::vector<std::pair<std::string, Tensor>> tensors_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_WEIGHTS_LOADING_H_
