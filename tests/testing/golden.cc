#include "tests/testing/golden.h"

#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/tensor/cpu_stream.h"
#include "engine/weights/float_formats.h"

namespace kinora {
namespace {

double ElementAt(const Tensor& t, int64_t row, int64_t column) {
  const int64_t i = row * t.row_stride() + column;
  switch (t.dtype()) {
    case DType::kF32:
      return t.data<float>()[i];
    case DType::kBF16:
      return static_cast<float>(t.data<bf16>()[i]);
    case DType::kI32:
      return t.data<int32_t>()[i];
    case DType::kU8:
      return t.data<uint8_t>()[i];
    default:
      KINORA_CHECK(false) << "cannot compare " << DTypeName(t.dtype());
  }
  return 0;
}

std::shared_ptr<const SafetensorsFile> OpenCase(std::string_view name) {
  const std::string path = absl::StrCat(KINORA_SOURCE_DIR "/tests/golden/data/", std::string(name), ".safetensors");
  auto file = SafetensorsFile::Open(path);
  KINORA_CHECK(file.ok()) << file.status().ToString();
  return *std::move(file);
}

const std::string& MetadataOf(const SafetensorsFile& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  KINORA_CHECK(found != file.metadata().end()) << file.path() << " has no metadata \"" << key << "\"";
  return found->second;
}

std::vector<char> ReadAll(const SafetensorsFile& file, const TensorInfo& tensor) {
  std::vector<char> data(tensor.bytes);
  const absl::Status read = file.Read(tensor, 0, tensor.bytes, data.data());
  KINORA_CHECK(read.ok()) << read.ToString();
  return data;
}

}  // namespace

double Tolerance(TestBackend backend, DType dtype) {
  if (dtype == DType::kBF16) return 2e-2;
  KINORA_CHECK(dtype == DType::kF32) << DTypeName(dtype);
  return backend == TestBackend::kCpu ? 1e-5 : 1e-4;
}

double RelativeError(const Tensor& actual, const Tensor& expected) {
  KINORA_CHECK(actual.elements() == expected.elements())
      << actual.shape().ToString() << " against " << expected.shape().ToString();
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < expected.elements(); ++i) {
    const double a = ElementAt(actual, i / actual.width(), i % actual.width());
    const double b = ElementAt(expected, i / expected.width(), i % expected.width());
    if (!std::isfinite(a) || !std::isfinite(b)) return std::numeric_limits<double>::infinity();
    difference += (a - b) * (a - b);
    norm += b * b;
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

testing::AssertionResult Near(const Tensor& actual, const Tensor& expected, double tolerance) {
  if (actual.elements() != expected.elements()) {
    return testing::AssertionFailure() << "shape " << actual.shape().ToString() << " against "
                                       << expected.shape().ToString();
  }
  const double error = RelativeError(actual, expected);
  if (error <= tolerance) return testing::AssertionSuccess() << "relative error " << error;
  return testing::AssertionFailure() << "relative error " << error << " is above " << tolerance;
}

testing::AssertionResult Near(const std::vector<float>& actual, const Tensor& expected, double tolerance) {
  const Tensor values(DType::kF32, {static_cast<int64_t>(actual.size())}, const_cast<float*>(actual.data()));
  if (values.elements() != expected.elements()) return Near(values, expected, tolerance);
  return Near(values.Reshape(expected.shape()), expected, tolerance);
}

HostTensor::HostTensor(DType dtype, const Shape& shape) {
  auto buffer = Buffer::Allocate(shape.elements() * DTypeSize(dtype));
  KINORA_CHECK(buffer.ok()) << buffer.status().ToString();
  buffer_ = *std::move(buffer);
  tensor_ = buffer_.View(dtype, shape);
}

HostTensor ToChannelsLast(const Tensor& value) {
  const int rank = value.shape().rank();
  KINORA_CHECK(rank >= 3 && rank <= 5 && (rank == 3 || value.dim(0) == 1)) << value.shape().ToString();
  const int64_t channels = value.dim(0) * value.dim(1);
  const int64_t points = value.elements() / channels;
  const auto extent = [&](int from_end) { return rank - from_end >= 2 ? value.dim(rank - from_end) : 1; };
  HostTensor result(DType::kF32, {extent(3), extent(2), extent(1), channels});
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t i = 0; i < points; ++i) result.f32()[i * channels + c] = value.data<float>()[c * points + i];
  }
  return result;
}

Golden::Golden(std::string_view name) : file_(OpenCase(name)) {}

Golden::~Golden() {
  if (!checkpoint_.empty()) unlink(checkpoint_.c_str());
}

const std::string& Golden::metadata(const std::string& key) const { return MetadataOf(*file_, key); }

std::vector<std::string> Golden::Names(std::string_view prefix) const {
  std::vector<std::string> names;
  for (const TensorInfo& info : file_->tensors()) {
    if (info.name.starts_with(prefix)) names.push_back(info.name);
  }
  return names;
}

const Tensor& Golden::Get(std::string_view name) {
  absl::MutexLock lock(&mu_);
  if (const auto found = loaded_.find(name); found != loaded_.end()) return found->second.tensor();
  const TensorInfo* info = file_->Find(name);
  KINORA_CHECK(info != nullptr) << file_->path() << " has no tensor \"" << name << "\"";
  const std::vector<char> raw = ReadAll(*file_, *info);
  const int64_t count = info->shape.elements();
  const bool wide = info->dtype == DType::kI64;
  const DType dtype = IsFloat(info->dtype) ? DType::kF32 : wide ? DType::kI32 : info->dtype;
  HostTensor tensor(dtype, info->shape);
  if (IsFloat(info->dtype)) {
    WidenToF32(info->dtype, raw.data(), count, tensor.f32());
  } else if (wide) {
    for (int64_t i = 0; i < count; ++i) {
      int64_t value;
      std::memcpy(&value, raw.data() + i * sizeof(value), sizeof(value));
      KINORA_CHECK(value == static_cast<int32_t>(value)) << name << " holds " << value;
      tensor.tensor().data<int32_t>()[i] = static_cast<int32_t>(value);
    }
  } else {
    std::memcpy(tensor.tensor().raw(), raw.data(), raw.size());
  }
  return loaded_.emplace(std::string(name), std::move(tensor)).first->second.tensor();
}

std::string Golden::WriteCheckpoint() {
  const auto owner = OpenCase(metadata("weights"));
  const std::string& prefix = MetadataOf(*owner, "prefix");
  constexpr std::string_view kWeights = "weights.";
  SafetensorsWriter writer;
  for (const char* key : {"config", "model_version"}) writer.SetMetadata(key, MetadataOf(*owner, key));
  const auto key_of = [&](const TensorInfo& info) { return prefix + info.name.substr(kWeights.size()); };
  std::vector<const TensorInfo*> weights;
  for (const TensorInfo& info : owner->tensors()) {
    if (info.name.starts_with(kWeights)) weights.push_back(&info);
  }
  for (const TensorInfo* info : weights) writer.Declare(key_of(*info), info->dtype, info->shape);
  static std::atomic<int> written = 0;  // ranks that are threads each write their own
  checkpoint_ =
      absl::StrCat(testing::TempDir(), "/", metadata("weights"), ".", getpid(), ".", ++written, ".safetensors");
  absl::Status status = writer.Open(checkpoint_);
  for (const TensorInfo* info : weights) {
    status.Update(writer.Append(key_of(*info), ReadAll(*owner, *info).data(), info->bytes));
  }
  status.Update(writer.Close());
  KINORA_CHECK(status.ok()) << status.ToString();
  return checkpoint_;
}

namespace {

// The first `tokens` rows of each pass. Empty if the rows do not divide into passes or a pass has fewer than `tokens`.
HostTensor WithoutPadding(const Tensor& value, int64_t passes, int64_t tokens) {
  const int64_t padded = value.rows() / passes;
  if (value.rows() % passes != 0 || padded < tokens) return HostTensor(DType::kF32, {0, value.width()});
  HostTensor kept(DType::kF32, {passes * tokens, value.width()});
  for (int64_t pass = 0; pass < passes; ++pass) {
    CopyElements(value.As2D().Rows(pass * padded, pass * padded + tokens),
                 kept.tensor().Rows(pass * tokens, (pass + 1) * tokens));
  }
  return kept;
}

}  // namespace

TapCheck::TapCheck(Golden& golden, double tolerance, GoldenLayout layout)
    : golden_(golden),
      tolerance_(tolerance),
      layout_(layout),
      taps_([this](std::string_view name, const Tensor& value) { Compare(name, value); }) {}

void TapCheck::Compare(std::string_view name, const Tensor& value) {
  const std::string key = "tap." + std::string(name);
  if (!golden_.Has(key)) return;
  const Tensor& expected = golden_.Get(key);
  if (layout_ == GoldenLayout::kPaddedPasses) {
    return Note(name, WithoutPadding(value, expected.dim(0), expected.dim(1)).tensor(), expected);
  }
  Note(name, value, layout_ == GoldenLayout::kSame ? expected : ToChannelsLast(expected).tensor());
}

void TapCheck::Note(std::string_view name, const Tensor& value, const Tensor& expected) {
  if (value.elements() == expected.elements()) {
    errors_.emplace_back(name, RelativeError(value, expected));
    return;
  }
  errors_.emplace_back(absl::StrCat(std::string(name), " (shape ", value.shape().ToString(), " against ",
                                    expected.shape().ToString(), ")"),
                       std::numeric_limits<double>::infinity());
}

testing::AssertionResult TapCheck::Result() const {
  if (errors_.empty()) return testing::AssertionFailure() << "no tap of " << golden_.path() << " was compared";
  std::string before;
  for (const auto& [name, error] : errors_) {
    if (!(error <= tolerance_)) {
      return testing::AssertionFailure() << "first divergence at " << name << ": relative error " << error
                                         << " is above " << tolerance_ << "; before it:" << before;
    }
    absl::StrAppend(&before, " ", name, "=", error);
  }
  return testing::AssertionSuccess() << before;
}

}  // namespace kinora
