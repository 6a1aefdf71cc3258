#include "server/tools/noise_file.h"

#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/weights/float_formats.h"
#include "engine/weights/safetensors.h"

namespace kinora {
namespace {

struct Slot {
  const char* name;
  int rank;
  std::optional<HostArray> GivenNoise::*member;
};
constexpr Slot kSlots[] = {{"video_noise", 5, &GivenNoise::video}, {"audio_noise", 4, &GivenNoise::audio}};

absl::StatusOr<HostArray> ReadArray(const SafetensorsFile& file, const TensorInfo& tensor, int rank) {
  const auto bad = [&](const std::string& problem) {
    return absl::InvalidArgumentError(absl::StrCat(file.path(), ": ", tensor.name, " ", problem));
  };
  if (tensor.shape.rank() != rank || tensor.shape[0] != 1) {
    return bad(absl::StrCat("is ", tensor.shape.ToString(), "; ", rank, " dimensions are needed, the first of them 1"));
  }
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
  bool any = false;
  for (const Slot& slot : kSlots) {
    const TensorInfo* tensor = file->Find(slot.name);
    if (tensor == nullptr) continue;
    KINORA_ASSIGN_OR_RETURN(noise.*slot.member, ReadArray(*file, *tensor, slot.rank));
    any = true;
  }
  if (!any) return absl::InvalidArgumentError(path + ": holds neither video_noise nor audio_noise");
  return noise;
}

}  // namespace kinora
