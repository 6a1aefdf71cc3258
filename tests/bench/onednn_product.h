// A matrix product by oneDNN, set up as favourably as its interface allows: weights reordered beforehand into the
// layout it asks for.
#ifndef KINORA_TESTS_BENCH_ONEDNN_PRODUCT_H_
#define KINORA_TESTS_BENCH_ONEDNN_PRODUCT_H_

#include <cstdint>
#include <memory>

namespace kinora {

class OneDnnProduct {
 public:
  // out[rows, out] = x[rows, in] · w[in, out], f32 or bf16 throughout; operands are filled with small values.
  // Threads are OpenMP's: OMP_NUM_THREADS.
  OneDnnProduct(int64_t rows, int64_t in, int64_t out, bool bf16);
  ~OneDnnProduct();
  void Run();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_BENCH_ONEDNN_PRODUCT_H_
