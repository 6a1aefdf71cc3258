// Committed results of the reference implementations (tests/golden/data/*.safetensors; how they were made:
// tests/golden) and how close to them each backend must come. A case holds weights.* (keys of the single-file layout),
// in.*, tap.* (intermediate values by the name that model code gives to its taps) and out.*; its metadata has the
// reference's config.
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

// The one tolerance table, as ‖a − b‖ / ‖b‖ against the float32 reference; `dtype` is what weights and activations are.
enum class TestBackend { kCpu, kCuda };
double Tolerance(TestBackend backend, DType dtype);

// ‖actual − expected‖ / ‖expected‖ over all elements, in double. Shapes may group the same elements differently. f32,
// bf16 or i32 against the same or f32; a NaN or infinity anywhere gives infinity.
double RelativeError(const Tensor& actual, const Tensor& expected);
testing::AssertionResult Near(const Tensor& actual, const Tensor& expected, double tolerance);
testing::AssertionResult Near(const std::vector<float>& actual, const Tensor& expected, double tolerance);

// A tensor in host memory that owns it.
class HostTensor {
 public:
  HostTensor(DType dtype, const Shape& shape);
  const Tensor& tensor() const { return tensor_; }
  float* f32() { return tensor_.data<float>(); }

 private:
  Buffer buffer_;
  Tensor tensor_;
};

// [1, C, F, H, W] -> [F, H, W, C]; [1, C, H, W] -> [1, H, W, C]; [N, C, L] -> [1, 1, L, N·C]. f32.
HostTensor ToChannelsLast(const Tensor& value);

class Golden {
 public:
  // name: a file of tests/golden/data without ".safetensors". A missing or damaged file ends the test program with a
  // message.
  explicit Golden(std::string_view name);
  ~Golden();
  Golden(const Golden&) = delete;
  Golden& operator=(const Golden&) = delete;

  const std::string& path() const { return file_->path(); }
  const std::string& metadata(const std::string& key) const;  // ends the program if absent
  bool HasMetadata(const std::string& key) const { return file_->metadata().contains(key); }
  bool Has(std::string_view name) const { return file_->Find(name) != nullptr; }
  std::vector<std::string> Names(std::string_view prefix) const;
  // Floating-point tensors widened to f32, i64 narrowed to i32, others as stored. Valid as long as the Golden.
  // Thread-safe: ranks share one.
  const Tensor& Get(std::string_view name);

  // Writes weights.* (those of the case that metadata "weights" names) as a checkpoint in the single-file layout, with
  // their whole keys, `config` and `model_version`, into the test's temporary folder. Returns its path, for
  // ModelFiles::paths.
  std::string WriteCheckpoint();

 private:
  std::shared_ptr<const SafetensorsFile> file_;
  absl::Mutex mu_;
  std::map<std::string, HostTensor, std::less<>> loaded_ ABSL_GUARDED_BY(mu_);
  std::string checkpoint_;
};

// Of the taps, relative to the model's. kPaddedPasses: the model's rows are those of a batch's passes one after the
// other, each followed by padding that is not compared.
enum class GoldenLayout { kSame, kChannelsFirst, kPaddedPasses };

// Compares every tap that the golden also has, while the model runs.
class TapCheck {
 public:
  TapCheck(Golden& golden, double tolerance, GoldenLayout layout = GoldenLayout::kSame);
  Taps& taps() { return taps_; }
  // Fails with the first tap over the tolerance, in the order of the run, and the errors up to it; also if none was
  // compared.
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
