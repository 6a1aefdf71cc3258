#include "engine/weights/parameter.h"

#include "engine/base/status_macros.h"

namespace kinora {

HostParameter::HostParameter(std::string name, DType dtype, const Shape& shape, Buffer buffer)
    : name_(std::move(name)), buffer_(std::move(buffer)), tensor_(dtype, shape, buffer_.data()) {}

absl::StatusOr<HostParameter> HostParameter::Allocate(std::string name, DType dtype, const Shape& shape) {
  KINORA_ASSIGN_OR_RETURN(Buffer buffer, Buffer::Allocate(shape.elements() * DTypeSize(dtype), name));
  return HostParameter(std::move(name), dtype, shape, std::move(buffer));
}

void HostParameter::Transform(absl::FunctionRef<float(float)> f) {
  if (!has_values()) return;
  float* values = tensor_.data<float>();
  for (int64_t i = 0; i < tensor_.elements(); ++i) values[i] = f(values[i]);
}

absl::StatusOr<Parameter> HostParameter::Upload(Backend& backend) && {
  if (!has_values()) return Parameter(std::move(buffer_), tensor_);
  KINORA_ASSIGN_OR_RETURN(Buffer device, backend.Upload(std::move(buffer_), name_));
  const Tensor tensor(tensor_.dtype(), tensor_.shape(), device.data());
  return Parameter(std::move(device), tensor);
}

}  // namespace kinora
