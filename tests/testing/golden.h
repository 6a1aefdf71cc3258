// Committed results of the reference implementations (tests/golden/data/*.safetensors, made by tests/golden) and the
// tolerance of each backend. A case holds weights.* (keys of the single-file layout), in.*, tap.* (intermediate values,
// named as the model code names its taps) and out.*; its metadata contains the reference's config.
//
//   Golden golden("video_decoder_2_0");
//   TapCheck taps(golden, Tolerance(TestBackend::kCpu, DType::kF32), GoldenLayout::kChannelsFirst);
//   ... run with Exec{.taps = &taps.taps()} ...
//   EXPECT_TRUE(taps.Result());                                        // names the first tap that diverges
//   EXPECT_TRUE(Near(out, golden.Get("out.video"), 1e-5));
#ifndef KINORA_TESTS_TESTING_GOLDEN_H_
#define KINORA_TESTS_TESTING_GOLDEN_H_

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "engine/parallel/taps.h"
#include "engine/tensor/buffer.h"
#include "engine/weights/safetensors.h"

namespace kinora {

// The only tolerance table, as ‖a − b‖ / ‖b‖ against the float32 reference. `dtype` is that of weights and
// activations.
enum class TestBackend { kCpu, kCuda };
double Tolerance(TestBackend backend, DType dtype);

// ‖actual − expected‖ / ‖expected‖ over all elements, in double. The shapes may differ if the number of
// elements is equal. `actual` is f32, bf16 or i32; `expected` has the same dtype or f32. Any NaN or infinity makes the
// result infinite.
double RelativeError(const Tensor& actual, const Tensor& expected);
testing::AssertionResult Near(const Tensor& actual, const Tensor& expected, double tolerance);
testing::AssertionResult Near(const std::vector<float>& actual, const Tensor& expected, double tolerance);

// A tensor that owns its host memory.
class HostTensor {
 public:
  HostTensor(DType dtype, const Shape& shape);
  const Tensor& tensor() const { return tensor_; }
  float* f32() { return tensor_.data<float>(); }

 private:
  Buffer buffer_;
  Tensor tensor_;
};

// Converts an f32 tensor: [1, C, F, H, W] -> [F, H, W, C]; [1, C, H, W] -> [1, H, W, C]; [N, C, L] -> [1, 1, L, N·C].
HostTensor ToChannelsLast(const Tensor& value);

class Golden {
 public:
  // `name` is a file in tests/golden/data without ".safetensors". Ends the test program with a message if the file is
  // missing or damaged.
  explicit Golden(std::string_view name);
  ~Golden();
  Golden(const Golden&) = delete;
  Golden& operator=(const Golden&) = delete;

  const std::string& path() const { return file_->path(); }
  const std::string& metadata(const std::string& key) const;  // ends the program if absent
  bool HasMetadata(const std::string& key) const { return file_->metadata().contains(key); }
  bool Has(std::string_view name) const { return file_->Find(name) != nullptr; }
  std::vector<std::string> Names(std::string_view prefix) const;
  // Floating-point tensors are widened to f32, i64 is narrowed to i32, other dtypes are as stored. The result is valid
  // for the Golden's lifetime. Thread-safe, so ranks can share a Golden.
  const Tensor& Get(std::string_view name);

  // Writes weights.* of the case that metadata "weights" names as a checkpoint in the single-file layout, with full
  // keys, `config` and `model_version`, into the test's temporary directory. Returns its path for ModelFiles::paths.
  // The destructor deletes the file.
  std::string WriteCheckpoint();

 private:
  std::shared_ptr<const SafetensorsFile> file_;
  absl::Mutex mu_;
  std::map<std::string, HostTensor, std::less<>> loaded_ ABSL_GUARDED_BY(mu_);
  std::string checkpoint_;
};

// Layout of the golden's taps relative to the model's. kPaddedPasses: the model's rows are the passes of a batch in
// sequence, each followed by padding that is not compared.
enum class GoldenLayout { kSame, kChannelsFirst, kPaddedPasses };

// Compares every tap that the golden contains while the model runs.
class TapCheck {
 public:
  TapCheck(Golden& golden, double tolerance, GoldenLayout layout = GoldenLayout::kSame);
  Taps& taps() { return taps_; }
  // Fails if no tap was compared or one exceeds the tolerance. Reports the first such tap in execution order and the
  // errors of those before it.
  testing::AssertionResult Result() const;
  int compared() const { return static_cast<int>(errors_.size()); }

 private:
  void Compare(std::string_view name, const Tensor& value);
  void Note(std::string_view name, const Tensor& value, const Tensor& expected);

  Golden& golden_;
  const double tolerance_;
  const GoldenLayout layout_;
  std::vector<std::pair<std::string, double>> errors_;
  Taps taps_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_GOLDEN_H_
