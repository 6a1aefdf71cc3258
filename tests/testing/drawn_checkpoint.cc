#include "tests/testing/drawn_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "engine/base/check.h"
#include "engine/weights/key_tables.h"
#include "engine/weights/safetensors.h"
#include "nlohmann/json.hpp"

namespace kinora {
namespace {

struct Range {
  float centre, width;
};

Range RangeOf(std::string_view name, const Shape& shape) {
  if (name.ends_with("_norm.weight") || (name.ends_with(".weight") && shape.rank() == 1)) return {1.0f, 0.25f};
  if (name.ends_with(".weight")) return {0.0f, static_cast<float>(std::sqrt(3.0 / static_cast<double>(shape[1])))};
  return {0.0f, 0.875f};
}

struct Source {
  std::shared_ptr<const SafetensorsFile> file;
  std::vector<const TensorInfo*> kept;  // tensors of components that are not drawn
};

std::string KindOf(std::string_view key) { return std::string(ComponentOf(*CanonicalFromSingleFile(key))); }

Source OpenBase(const std::string& path, const std::map<std::string, Shape>& drawn) {
  auto file = SafetensorsFile::Open(path);
  KINORA_CHECK(file.ok()) << file.status().ToString();
  Source base{*std::move(file), {}};
  for (const TensorInfo& info : base.file->tensors()) {
    const bool replaced =
        std::any_of(drawn.begin(), drawn.end(), [&](const auto& t) { return KindOf(t.first) == KindOf(info.name); });
    if (!replaced) base.kept.push_back(&info);
  }
  return base;
}

}  // namespace

std::vector<bf16> WeightSource::Draw(std::string_view name, const Shape& shape) {
  const Range range = RangeOf(name, shape);
  std::vector<bf16> values(shape.elements());
  for (bf16& value : values) {
    const float u = static_cast<float>(engine_() & 0xffffffu) * 0x1p-24f;
    const float scaled = range.width * (2.0f * u - 1.0f);  // exact if centre is not 0
    value = bf16(range.centre + scaled);
    checksum_ += value.bits * (position_++ % 1021 + 1);
  }
  return values;
}

DrawnCheckpoint::DrawnCheckpoint(const Golden& golden) : path_(folder_.File("drawn.safetensors")) {
  const auto description = nlohmann::json::parse(golden.metadata("drawn"));
  std::map<std::string, Shape> drawn;
  for (const auto& [name, dims] : description["tensors"].items()) drawn[name] = Shape(dims.get<std::vector<int64_t>>());
  const Source base = OpenBase(KINORA_SOURCE_DIR "/" + description["base"].get<std::string>(), drawn);
  SafetensorsWriter writer;
  for (const char* key : {"config", "model_version"}) writer.SetMetadata(key, golden.metadata(key));
  for (const auto& [name, shape] : drawn) writer.Declare(name, DType::kBF16, shape);
  for (const TensorInfo* info : base.kept) writer.Declare(info->name, info->dtype, info->shape);
  absl::Status status = writer.Open(path_);
  WeightSource source(description["seed"].get<uint64_t>());
  for (const auto& [name, shape] : drawn) {
    status.Update(writer.Append(name, source.Draw(name, shape).data(), shape.elements() * DTypeSize(DType::kBF16)));
  }
  for (const TensorInfo* info : base.kept) {
    std::vector<char> data(info->bytes);
    status.Update(base.file->Read(*info, 0, info->bytes, data.data()));
    status.Update(writer.Append(info->name, data.data(), info->bytes));
  }
  status.Update(writer.Close());
  KINORA_CHECK(status.ok()) << status.ToString();
  KINORA_CHECK(std::to_string(source.checksum()) == description["checksum"].get<std::string>())
      << golden.path() << ": the weights drawn here are not the reference's";
}

}  // namespace kinora
