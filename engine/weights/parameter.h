// Tensors of a model that are not matrices of Ops: norm weights, tables, registers, embeddings, filters. The host reads
// them and may transform them, then uploads them to the device:
//   KINORA_ASSIGN_OR_RETURN(HostParameter table, loader.LoadOnHost("act.alpha", {channels}));
//   table.Transform([](float x) { return std::exp(x); });
//   KINORA_ASSIGN_OR_RETURN(Parameter frequency, loader.Upload(std::move(table)));
#ifndef KINORA_ENGINE_WEIGHTS_PARAMETER_H_
#define KINORA_ENGINE_WEIGHTS_PARAMETER_H_

#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "engine/ops/backend.h"

namespace kinora {

// On the device: passed to ops and copies, never accessed by the host.
class Parameter {
 public:
  Parameter() = default;
  Parameter(Buffer buffer, Tensor tensor) : buffer_(std::move(buffer)), tensor_(tensor) {}
  const Tensor& tensor() const { return tensor_; }
  operator const Tensor&() const { return tensor_; }  // NOLINT: a Parameter is passed wherever its Tensor is

 private:
  Buffer buffer_;
  Tensor tensor_;
};

// On the host, before the upload. Has no values in a dry run and after a problem that the loader has noted; Transform
// then does nothing.
class HostParameter {
 public:
  HostParameter() = default;
  // name: for messages. buffer: host memory, or dry.
  HostParameter(std::string name, DType dtype, const Shape& shape, Buffer buffer);
  // Allocates undefined contents, to be filled. Fails with ResourceExhausted.
  static absl::StatusOr<HostParameter> Allocate(std::string name, DType dtype, const Shape& shape);

  bool has_values() const { return buffer_.data() != nullptr; }
  const Tensor& tensor() const { return tensor_; }
  // Replaces every element x, f32, by f(x).
  void Transform(absl::FunctionRef<float(float)> f);

  // Uploads the parameter to `backend`'s device. Fails with ResourceExhausted naming the parameter.
  absl::StatusOr<Parameter> Upload(Backend& backend) &&;

 private:
  std::string name_;
  Buffer buffer_;
  Tensor tensor_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_WEIGHTS_PARAMETER_H_
