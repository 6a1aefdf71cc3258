#include "engine/pipeline/resume_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/weights/safetensors.h"

namespace kinora {
namespace {

constexpr std::string_view kVersion = "1";
constexpr std::string_view kPart = "run.";  // before the names of the fingerprint's parts
constexpr int64_t kLengthBytes = 8;
constexpr int64_t kMostHeaderBytes = 1 << 20;  // a model of 100 files has about 12 KB of digests
constexpr int64_t kFloat = sizeof(float);

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(Cat("resume file: ", parts...));
}

// Reads a number as Cat writes it.
absl::StatusOr<int64_t> ReadNumber(const std::map<std::string, std::string>& metadata, const std::string& name) {
  const auto found = metadata.find(name);
  if (found == metadata.end()) return Invalid(name, " is missing");
  int64_t number = 0;
  if (absl::SimpleAtoi(found->second, &number) && number >= 0 && Cat(number) == found->second) return number;
  return Invalid(name, ": not a number");
}

absl::Status ReadMetadata(const std::map<std::string, std::string>& metadata, ResumeFile& file) {
  const auto version = metadata.find("kinora_resume");
  if (version == metadata.end()) return Invalid("kinora_resume is missing");
  if (version->second != kVersion) return Invalid("kinora_resume: not version ", kVersion);
  KINORA_ASSIGN_OR_RETURN(file.point.stage, ReadNumber(metadata, "stage"));
  KINORA_ASSIGN_OR_RETURN(file.point.step, ReadNumber(metadata, "step"));
  for (const auto& [name, text] : metadata) {
    if (name == "kinora_resume" || name == "stage" || name == "step") continue;
    if (!name.starts_with(kPart)) return Invalid(name, ": not a field of the format");
    file.fingerprint[name.substr(kPart.size())] = text;
  }
  return absl::OkStatus();
}

// data: the file's bytes behind the header; `tensor` lies in it.
absl::StatusOr<HostArray> ReadValue(const TensorInfo& tensor, std::string_view data) {
  if (tensor.dtype != DType::kF32) return Invalid(tensor.name, ": dtype ", SafetensorsDTypeName(tensor.dtype));
  if (tensor.shape.rank() != 2) return Invalid(tensor.name, ": ", tensor.shape.rank(), " dimensions instead of 2");
  HostArray value{.shape = {tensor.shape.dims().begin(), tensor.shape.dims().end()}, .values = {}};
  value.values.resize(tensor.bytes / kFloat);
  if (tensor.bytes > 0) std::memcpy(value.values.data(), data.data() + tensor.offset, tensor.bytes);
  return value;
}

}  // namespace

std::string ToBytes(const ResumeFile& file) {
  SafetensorsHeader header{.metadata = {{"kinora_resume", std::string(kVersion)},
                                        {"stage", Cat(file.point.stage)},
                                        {"step", Cat(file.point.step)}}};
  for (const auto& [part, text] : file.fingerprint) header.metadata[Cat(kPart, part)] = text;
  int64_t end = 0;
  for (const auto& [name, value] : file.point.values) {
    const Shape shape(value.shape);
    const auto elements = static_cast<int64_t>(value.values.size());
    KINORA_CHECK_EQ(shape.elements(), elements) << name;
    header.tensors.push_back(
        {.name = name, .dtype = DType::kF32, .shape = shape, .offset = end, .bytes = elements * kFloat});
    end += elements * kFloat;
  }
  std::string bytes = SafetensorsHeaderBytes(header);
  bytes.reserve(bytes.size() + end);
  for (const auto& [name, value] : file.point.values) {
    bytes.append(reinterpret_cast<const char*>(value.values.data()), value.values.size() * kFloat);
  }
  return bytes;
}

absl::StatusOr<ResumeFile> ParseResumeFile(std::string_view bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  if (size < kLengthBytes) return Invalid(size, " bytes, too few for a header");
  uint64_t length = 0;
  for (int i = kLengthBytes - 1; i >= 0; --i) length = length << 8 | static_cast<uint8_t>(bytes[i]);  // little-endian
  const int64_t most = std::min(kMostHeaderBytes, size - kLengthBytes);
  if (length > static_cast<uint64_t>(most)) {
    return Invalid("header of ", length, " bytes in a file of ", size, ", at most ", kMostHeaderBytes);
  }
  const std::string_view data = bytes.substr(kLengthBytes + length);
  const auto header = ParseSafetensorsHeader(bytes.substr(kLengthBytes, length), static_cast<int64_t>(data.size()));
  if (!header.ok()) return Invalid(header.status().message());
  ResumeFile file;
  KINORA_RETURN_IF_ERROR(ReadMetadata(header->metadata, file));
  for (const TensorInfo& tensor : header->tensors) {
    KINORA_ASSIGN_OR_RETURN(file.point.values[tensor.name], ReadValue(tensor, data));
  }
  return file;
}

int64_t MostResumeFileBytes(const RunPlan& plan) {
  int64_t most = 0;
  for (const StagePlan& stage : plan.stages) {
    int64_t bytes = 0;
    for (const CarriedShape& carried : stage.carried) bytes += carried.shape.elements() * kFloat;
    most = std::max(most, bytes);
  }
  return kLengthBytes + kMostHeaderBytes + most;
}

}  // namespace kinora
