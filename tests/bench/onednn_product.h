// A matrix product with oneDNN, with weights reordered beforehand into the layout that oneDNN prefers.
#ifndef KINORA_TESTS_BENCH_ONEDNN_PRODUCT_H_
#define KINORA_TESTS_BENCH_ONEDNN_PRODUCT_H_

#include <cstdint>
#include <memory>

namespace kinora {

class OneDnnProduct {
 public:
  // Computes out[rows, out] = x[rows, in] · w[in, out], all f32 or all bf16, with operands of small values. OpenMP
  // sets the number of threads (OMP_NUM_THREADS).
  OneDnnProduct(int64_t rows, int64_t in, int64_t out, bool bf16);
  ~OneDnnProduct();
  void Run();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_BENCH_ONEDNN_PRODUCT_H_
