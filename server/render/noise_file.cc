#include "server/render/noise_file.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/weights/float_formats.h"
#include "engine/weights/safetensors.h"

namespace kinora {
namespace {

absl::StatusOr<HostArray> ReadArray(const SafetensorsFile& file, const TensorInfo& tensor) {
  const auto bad = [&](const std::string& problem) {
    return absl::InvalidArgumentError(absl::StrCat(file.path(), ": ", tensor.name, " ", problem));
  };
  if (!IsFloat(tensor.dtype)) return bad("is not of a floating-point type");
  std::string bytes(static_cast<size_t>(tensor.bytes), '\0');
  KINORA_RETURN_IF_ERROR(file.Read(tensor, 0, tensor.bytes, bytes.data()));
  HostArray array;
  array.shape.assign(tensor.shape.dims().begin(), tensor.shape.dims().end());
  array.values.resize(static_cast<size_t>(tensor.shape.elements()));
  WidenToF32(tensor.dtype, bytes.data(), tensor.shape.elements(), array.values.data());
  for (const float value : array.values) {
    if (!std::isfinite(value)) return bad("holds a value that is not finite");
  }
  return array;
}

}  // namespace

absl::StatusOr<GivenNoise> ReadNoiseFile(const std::string& path) {
  KINORA_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(path));
  GivenNoise noise;
  for (const std::string& name : NoiseNames()) {
    const TensorInfo* tensor = file->Find(name);
    if (tensor == nullptr) continue;
    KINORA_ASSIGN_OR_RETURN(noise.draws[name], ReadArray(*file, *tensor));
  }
  for (const TensorInfo& tensor : file->tensors()) {
    if (!IsDecoderNoiseName(tensor.name)) continue;
    KINORA_ASSIGN_OR_RETURN(noise.draws[tensor.name], ReadArray(*file, tensor));
  }
  const auto names_noise = [](const TensorInfo& tensor) { return IsNoiseName(tensor.name); };
  if (std::none_of(file->tensors().begin(), file->tensors().end(), names_noise)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": contains no noise tensor; known names: ",
                                                   absl::StrJoin(NoiseNames(), ", "), ", ", DecoderNoiseName(0, 1)));
  }
  return noise;
}

}  // namespace kinora
