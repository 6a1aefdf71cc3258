// Test only: f32 or bf16 rows on the simulated device, for tests of kernels against definitions in double precision.
#ifndef KINORA_TESTS_KERNELS_MATRIX_H_
#define KINORA_TESTS_KERNELS_MATRIX_H_

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <memory>
#include <vector>

#include "kernels/rows.h"
#include "tests/simt/control.h"
#include "tests/simt/device_buffer.h"

namespace kinora::kernels {

using simt::DeviceArray;
using Floats = std::vector<float>;

inline uint16_t ToBits(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline float FromBits(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
inline float Rounded(float value, Type type) { return type == Type::kBf16 ? FromBits(ToBits(value)) : value; }

// f32 or bf16 values in device memory, [rows, width], with `gap` elements of NaN after each row.
class Matrix {
 public:
  Matrix(const Floats& values, int64_t rows, int64_t width, int64_t gap, Type type, cudaStream_t stream)
      : rows_(rows), width_(width), stride_(width + gap), type_(type), stream_(stream) {
    std::vector<uint16_t> narrow(rows * stride_, 0xffff);
    Floats wide(rows * stride_, std::nanf(""));
    for (int64_t i = 0; i < rows * width; ++i) {
      const int64_t at = i / width * stride_ + i % width;
      narrow[at] = std::isnan(values[i]) ? 0xffff : ToBits(values[i]);
      wide[at] = values[i];
    }
    if (type == Type::kBf16) {
      bf16_ = std::make_unique<DeviceArray<uint16_t>>(narrow, stream);
    } else {
      f32_ = std::make_unique<DeviceArray<float>>(wide, stream);
    }
  }
  Rows rows() const {
    void* const data = bf16_ != nullptr ? static_cast<void*>(bf16_->data()) : f32_->data();
    return {.data = data, .stride = stride_, .type = type_};
  }
  // Returns the values. Fails the test if a gap was written to.
  Floats Read() const {
    Floats all, values;
    if (bf16_ != nullptr) {
      for (const uint16_t bits : bf16_->Read(stream_)) all.push_back(FromBits(bits));
    } else {
      all = f32_->Read(stream_);
    }
    for (int64_t i = 0; i < rows_ * stride_; ++i) {
      if (i % stride_ < width_) {
        values.push_back(all[i]);
      } else {
        EXPECT_TRUE(std::isnan(all[i])) << "written beside row " << i / stride_;
      }
    }
    return values;
  }

 private:
  const int64_t rows_, width_, stride_;
  const Type type_;
  cudaStream_t stream_;
  std::unique_ptr<DeviceArray<uint16_t>> bf16_;
  std::unique_ptr<DeviceArray<float>> f32_;
};

inline Floats Values(int64_t count, int salt, Type type = Type::kF32) {
  Floats values(count);
  for (int64_t i = 0; i < count; ++i) {
    values[i] = Rounded(std::sin(0.7f * static_cast<float>(i % 9973) + static_cast<float>(salt)) * 1.5f, type);
  }
  return values;
}

inline void ExpectNear(const Floats& got, const Floats& expected, Type type, const char* what) {
  ASSERT_EQ(got.size(), expected.size());
  const float tolerance = type == Type::kBf16 ? 8e-3f : 2e-5f;  // half a unit in the last place of bf16 is up to 4e-3
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(expected[i])) {
      ASSERT_TRUE(std::isnan(got[i])) << what << " " << i << " is written";
      continue;
    }
    ASSERT_NEAR(got[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << what << " " << i;
  }
}

class OnAStream : public testing::Test {
 protected:
  OnAStream() { EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess); }
  ~OnAStream() override { cudaStreamDestroy(stream_); }
  cudaStream_t stream_ = nullptr;
};

}  // namespace kinora::kernels

#endif  // KINORA_TESTS_KERNELS_MATRIX_H_
