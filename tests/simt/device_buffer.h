// Test only: an array in the simulated device's memory.
#ifndef KINORA_TESTS_SIMT_DEVICE_BUFFER_H_
#define KINORA_TESTS_SIMT_DEVICE_BUFFER_H_

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace kinora::simt {

template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count) : count_(count) {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, count * sizeof(T)), cudaSuccess);
    data_ = static_cast<T*>(memory);
  }
  DeviceArray(const std::vector<T>& values, cudaStream_t stream) : DeviceArray(values.size()) {
    EXPECT_EQ(cudaMemcpyAsync(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice, stream),
              cudaSuccess);
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }

  T* data() const { return data_; }
  // Waits for the stream and returns the buffer's contents.
  std::vector<T> Read(cudaStream_t stream) const {
    std::vector<T> values(count_);
    EXPECT_EQ(cudaMemcpyAsync(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost, stream), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    return values;
  }

 private:
  const size_t count_;
  T* data_ = nullptr;
};
using DeviceBuffer = DeviceArray<float>;

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_DEVICE_BUFFER_H_
