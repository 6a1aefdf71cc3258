// Named copies of intermediate tensors, for comparing with a reference layer by layer. Eager runs only: reading a value
// on the host while capturing is an error.
#ifndef KINORA_ENGINE_PARALLEL_TAPS_H_
#define KINORA_ENGINE_PARALLEL_TAPS_H_

#include <functional>
#include <string_view>

#include "engine/tensor/stream.h"

namespace kinora {

class Taps {
 public:
  // value: contiguous, in host memory, valid during the call.
  using Sink = std::function<void(std::string_view name, const Tensor& value)>;
  explicit Taps(Sink sink) : sink_(std::move(sink)) {}
  // Waits for the stream. value: a device tensor; rows of a strided view are copied one by one.
  void Record(Stream& stream, std::string_view name, const Tensor& value);

 private:
  Sink sink_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PARALLEL_TAPS_H_
