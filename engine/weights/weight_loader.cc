#include "engine/weights/weight_loader.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/weights/float_formats.h"
#include "engine/weights/key_tables.h"

namespace kinora {
namespace {

constexpr size_t kListedProblems = 20;
constexpr int64_t kPassElements = int64_t{1} << 28;   // 1 GiB of float32
constexpr int64_t kChunkElements = int64_t{1} << 20;  // 4 MiB of float32 on the way to bfloat16

// `offset` floats into the buffer; null stays null, since a dry run has no memory.
float* At(const Buffer& buffer, int64_t offset) {
  return buffer.data() == nullptr ? nullptr : static_cast<float*>(buffer.data()) + offset;
}

Tensor HostView(const Buffer& buffer, const Shape& shape) { return Tensor(DType::kF32, shape, buffer.data()); }

absl::StatusOr<Buffer> HostFloats(int64_t count, bool dry) {
  const int64_t bytes = count * static_cast<int64_t>(sizeof(float));
  return dry ? Buffer::Dry(bytes) : Buffer::Allocate(bytes, "a weight matrix on its way");
}

Shape WithExtent(const Shape& shape, int axis, int64_t extent) {
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  dims[axis] = extent;
  return Shape(dims);
}

// The file's output channel that comes `wanted`-th.
int64_t FileChannel(const ChannelOrder& order, int64_t out, int64_t wanted) {
  const SpaceTime& f = order.factor;
  const int64_t channels = out / f.product();
  const int64_t c = wanted % channels;
  wanted /= channels;
  const int64_t w = wanted % f.width, h = wanted / f.width % f.height, t = wanted / f.width / f.height;
  const int64_t plane = order.width_before_height ? w * f.height + h : h * f.width + w;
  return (c * f.time + t) * f.height * f.width + plane;
}

}  // namespace

struct WeightLoader::State {
  std::shared_ptr<const Checkpoint> checkpoint;  // null: a dry run without a file
  Ops* ops = nullptr;
  DType precision = DType::kBF16;
  std::set<std::string, std::less<>> read;        // canonical names asked for, found or not
  std::set<std::string, std::less<>> components;  // of those
  std::set<std::string, std::less<>> not_finite;  // noted already
  std::vector<std::string> problems;
  bool misfit = false;  // some of them are of names, shapes or dtypes: no more data need be read to refuse the model
  std::vector<RecordedTensor> recorded;
  int64_t tensor_bytes = 0;

  bool reads() const { return checkpoint != nullptr && !ops->dry() && !misfit; }
  void NoteMisfit(std::string problem) {
    problems.push_back(std::move(problem));
    misfit = true;
  }
};

absl::StatusOr<WeightLoader> WeightLoader::Open(std::shared_ptr<const Checkpoint> checkpoint, const Mesh& mesh,
                                                Ops& ops, DType precision) {
  KINORA_CHECK(precision == DType::kF32 || precision == DType::kBF16) << DTypeName(precision);
  for (const auto& [name, entry] : checkpoint->tensors()) {
    if (name.ends_with(".weight_scale_2")) {
      return absl::InvalidArgumentError(Cat(checkpoint->Describe(name),
                                            " marks NVFP4 weights; NVFP4 is not supported, use the "
                                            "bfloat16 or the per-tensor FP8 files"));
    }
  }
  auto state = std::make_shared<State>();
  state->checkpoint = std::move(checkpoint);
  state->ops = &ops;
  state->precision = precision;
  return WeightLoader(std::move(state), mesh);
}

WeightLoader WeightLoader::Dry(const Mesh& mesh, Ops& ops, DType precision) {
  KINORA_CHECK(ops.dry()) << "a dry loader has no values for real ops";
  auto state = std::make_shared<State>();
  state->ops = &ops;
  state->precision = precision;
  return WeightLoader(std::move(state), mesh);
}

WeightLoader WeightLoader::Under(std::string_view prefix) const {
  WeightLoader inner = *this;
  inner.prefix_ = Cat(prefix_, prefix, ".");
  return inner;
}

WeightLoader WeightLoader::On(const Mesh& mesh) const {
  WeightLoader other = *this;
  other.mesh_ = &mesh;
  return other;
}

std::string WeightLoader::FullName(std::string_view name) const { return Cat(prefix_, name); }

bool WeightLoader::Has(std::string_view name) const {
  return state_->checkpoint != nullptr && state_->checkpoint->Find(FullName(name)) != nullptr;
}

DType WeightLoader::precision() const { return state_->precision; }
const Mesh& WeightLoader::mesh() const { return *mesh_; }
const std::vector<RecordedTensor>& WeightLoader::recorded() const { return state_->recorded; }

int64_t WeightLoader::tensor_bytes() const { return state_->tensor_bytes; }

int64_t WeightLoader::recorded_elements() const {
  int64_t elements = 0;
  for (const RecordedTensor& tensor : state_->recorded) elements += tensor.shape.elements();
  return elements;
}

// Per-tensor FP8: `NAME.weight_scale` (spec 9.5). Without one the weights are plain FP8 values.
float WeightLoader::ScaleOf(const std::string& name, const TensorInfo& weight) {
  constexpr std::string_view kWeight = ".weight";
  if ((weight.dtype != DType::kF8E4M3 && weight.dtype != DType::kF8E5M2) || !name.ends_with(kWeight)) return 1.0f;
  const std::string module = name.substr(0, name.size() - kWeight.size());
  state_->read.insert(Cat(module, ".input_scale"));  // for FP8 arithmetic only; exact weights need none
  const std::string scale_name = Cat(module, ".weight_scale");
  const Checkpoint::Entry* entry = state_->checkpoint->Find(scale_name);
  if (entry == nullptr) return 1.0f;
  state_->read.insert(scale_name);
  if (entry->tensor->dtype != DType::kF32 || entry->tensor->shape.elements() != 1) {
    state_->NoteMisfit(Cat(state_->checkpoint->Describe(scale_name), ": ", DTypeName(entry->tensor->dtype), " ",
                           entry->tensor->shape.ToString(), "; only one float32 scale a tensor is supported"));
    return 1.0f;
  }
  float scale = 1.0f;
  const absl::Status status = TensorSource(*entry, 1.0f).ReadRows(0, 1, &scale);
  if (!status.ok()) state_->NoteMisfit(std::string(status.message()));
  if (FirstNotFinite(&scale, 1) == 0) state_->NoteMisfit(Cat(state_->checkpoint->Describe(scale_name), ": not finite"));
  return scale;
}

WeightLoader::Located WeightLoader::Locate(std::string name, const Shape& full) {
  std::optional<TensorSource> source = Find(name, full);
  return {std::move(name), full, std::move(source)};
}

std::optional<TensorSource> WeightLoader::Find(const std::string& name, const Shape& full) {
  if (state_->checkpoint == nullptr) {
    state_->recorded.push_back({name, full});
    return std::nullopt;
  }
  state_->components.insert(std::string(ComponentOf(name)));
  state_->read.insert(name);
  const Checkpoint::Entry* entry = state_->checkpoint->Find(name);
  if (entry == nullptr) {
    state_->NoteMisfit(Cat(name, ": missing; the model needs it as ", full.ToString()));
    return std::nullopt;
  }
  const TensorInfo& tensor = *entry->tensor;
  if (!IsFloat(tensor.dtype)) {
    state_->NoteMisfit(Cat(state_->checkpoint->Describe(name), ": dtype ", SafetensorsDTypeName(tensor.dtype),
                           " cannot be a weight; F32, F16, BF16 and FP8 can"));
    return std::nullopt;
  }
  if (tensor.shape != full) {
    state_->NoteMisfit(Cat(state_->checkpoint->Describe(name), ": shape ", tensor.shape.ToString(),
                           ", the configuration needs ", full.ToString()));
    return std::nullopt;
  }
  const float scale = ScaleOf(name, tensor);
  if (!state_->reads()) return std::nullopt;
  return TensorSource(*entry, scale);
}

void WeightLoader::CheckFinite(const std::string& name, const float* values, int64_t count) {
  if (FirstNotFinite(values, count) < 0 || !state_->not_finite.insert(name).second) return;
  state_->problems.push_back(Cat(state_->checkpoint->Describe(name), ": holds NaN or infinity"));
}

absl::StatusOr<int64_t> WeightLoader::PartOf(int64_t extent, Split split, const std::string& name) const {
  const int size = split == Split::kNone ? 1 : mesh_->tensor().size();
  if (extent % size == 0) return extent / size;
  return absl::InvalidArgumentError(Cat(name, ": ", extent, " does not divide into ", size, " tensor ranks"));
}

absl::Status WeightLoader::Read(const Located& tensor, Split split, float* out) {
  if (!tensor.source || !state_->reads()) return absl::OkStatus();
  const Shape& full = tensor.full;
  const int axis = split == Split::kColumns ? full.rank() - 1 : 0;
  const int64_t extent = full.rank() == 0 ? 1 : full[axis];
  KINORA_ASSIGN_OR_RETURN(const int64_t part, PartOf(extent, split, tensor.name));
  const int64_t begin = split == Split::kNone ? 0 : part * mesh_->tensor().rank();
  KINORA_RETURN_IF_ERROR(axis == 0 ? tensor.source->ReadRows(begin, begin + part, out)
                                   : tensor.source->ReadColumns(begin, begin + part, out));
  CheckFinite(tensor.name, out, full.elements() / std::max<int64_t>(1, extent) * part);
  return absl::OkStatus();
}

absl::StatusOr<Weight> WeightLoader::Pack(const Tensor& matrix, const Buffer& bias, std::optional<DType> precision) {
  const DType dtype = precision.value_or(state_->precision);
  const Shape& shape = matrix.shape();
  if (!state_->ops->dry() && state_->misfit) {  // never computed with: Finish will fail
    return Weight(dtype, shape[0], shape.rank() == 3 ? shape[1] : 1, shape[-1], Buffer(), Buffer::Dry(bias.bytes()));
  }
  const Tensor bias_view = HostView(bias, {shape[0]});
  return state_->ops->PrepareWeight(matrix, bias.bytes() > 0 ? &bias_view : nullptr, dtype);
}

absl::StatusOr<Weight> WeightLoader::LoadWeight(std::initializer_list<std::string_view> modules,
                                                const WeightSpec& spec) {
  const Split rows = spec.split == Split::kRows ? Split::kRows : Split::kNone;
  const Split columns = spec.split == Split::kColumns ? Split::kColumns : Split::kNone;
  std::vector<Located> weights, biases;
  for (std::string_view module : modules) {
    weights.push_back(Locate(FullName(Cat(module, ".weight")), {spec.out, spec.in}));
    if (spec.bias) biases.push_back(Locate(FullName(Cat(module, ".bias")), {spec.out}));
  }
  // The products of column slices are summed over the ranks: the bias must be in one of them only.
  if (columns == Split::kColumns && mesh_->tensor().rank() != 0) biases.clear();
  KINORA_ASSIGN_OR_RETURN(const int64_t out, PartOf(spec.out, rows, weights[0].name));
  KINORA_ASSIGN_OR_RETURN(const int64_t in, PartOf(spec.in, columns, weights[0].name));
  const int64_t all_out = out * static_cast<int64_t>(weights.size());
  const bool dry = !state_->reads();
  KINORA_ASSIGN_OR_RETURN(Buffer matrix, HostFloats(all_out * in, dry));
  KINORA_ASSIGN_OR_RETURN(Buffer bias, HostFloats(biases.empty() ? 0 : all_out, dry));
  for (size_t i = 0; i < weights.size(); ++i) {
    KINORA_RETURN_IF_ERROR(Read(weights[i], spec.split, At(matrix, i * out * in)));
    if (!biases.empty()) KINORA_RETURN_IF_ERROR(Read(biases[i], rows, At(bias, i * out)));
  }
  return Pack(HostView(matrix, {all_out, in}), bias, spec.precision);
}

absl::StatusOr<std::vector<Weight>> WeightLoader::LoadInterleaved(std::string_view module,
                                                                  const InterleavedSpec& spec) {
  const Located weight = Locate(FullName(Cat(module, ".weight")), {spec.out, spec.in * spec.count});
  Located file_bias;
  if (spec.bias) file_bias = Locate(FullName(Cat(module, ".bias")), {spec.out});
  const bool dry = !state_->reads();
  KINORA_ASSIGN_OR_RETURN(Buffer bias, HostFloats(spec.bias ? spec.out : 0, dry));
  KINORA_RETURN_IF_ERROR(Read(file_bias, Split::kNone, At(bias, 0)));
  // A few vectors a pass over the file: all of them in float32 would be gigabytes.
  const int64_t matrix = spec.out * spec.in, row = spec.in * spec.count;
  const int64_t per_pass = std::clamp<int64_t>(kPassElements / std::max<int64_t>(1, matrix), 1, spec.count);
  std::vector<float> file_row(dry ? 0 : row);
  std::vector<Weight> weights;
  for (int64_t first = 0; first < spec.count; first += per_pass) {
    const int64_t vectors = std::min(per_pass, spec.count - first);
    KINORA_ASSIGN_OR_RETURN(Buffer matrices, HostFloats(vectors * matrix, dry));
    for (int64_t o = 0; !dry && o < spec.out; ++o) {
      KINORA_RETURN_IF_ERROR(weight.source->ReadRows(o, o + 1, file_row.data()));
      for (int64_t n = 0; n < vectors; ++n) {
        float* to = At(matrices, n * matrix + o * spec.in);
        for (int64_t i = 0; i < spec.in; ++i) to[i] = file_row[i * spec.count + first + n];
      }
    }
    if (!dry) CheckFinite(weight.name, At(matrices, 0), vectors * matrix);
    for (int64_t n = 0; n < vectors; ++n) {
      const Buffer none;
      const Tensor part(DType::kF32, {spec.out, spec.in}, At(matrices, n * matrix));
      KINORA_ASSIGN_OR_RETURN(Weight one, Pack(part, first + n == 0 ? bias : none, {}));
      weights.push_back(std::move(one));
    }
  }
  return weights;
}

absl::StatusOr<Weight> WeightLoader::LoadConv(std::string_view module, const ConvSpec& spec) {
  KINORA_CHECK(spec.out % spec.order.factor.product() == 0) << FullName(module);
  std::vector<int64_t> dims = {spec.out, spec.in};
  dims.insert(dims.end(), spec.kernel.dims().begin(), spec.kernel.dims().end());
  const Located weight = Locate(FullName(Cat(module, ".weight")), Shape(dims));
  Located file_bias;
  if (spec.bias) file_bias = Locate(FullName(Cat(module, ".bias")), {spec.out});
  const int64_t taps = spec.kernel.elements(), row = taps * spec.in;
  const bool dry = !state_->reads();
  KINORA_ASSIGN_OR_RETURN(Buffer matrix, HostFloats(spec.out * row, dry));
  KINORA_ASSIGN_OR_RETURN(Buffer bias, HostFloats(spec.bias ? spec.out : 0, dry));
  if (!dry) {
    std::vector<float> file_row(row), file_biases(spec.out);  // the row: [in, taps]
    KINORA_RETURN_IF_ERROR(Read(file_bias, Split::kNone, file_biases.data()));
    for (int64_t o = 0; o < spec.out; ++o) {
      const int64_t from = FileChannel(spec.order, spec.out, o);
      KINORA_RETURN_IF_ERROR(weight.source->ReadRows(from, from + 1, file_row.data()));
      float* to = At(matrix, o * row);  // [taps, in]
      for (int64_t tap = 0; tap < taps; ++tap) {
        for (int64_t i = 0; i < spec.in; ++i) to[tap * spec.in + i] = file_row[i * taps + tap];
      }
      if (spec.bias) *At(bias, o) = file_biases[from];
    }
    CheckFinite(weight.name, At(matrix, 0), spec.out * row);
  }
  return Pack(HostView(matrix, {spec.out, taps, spec.in}), bias, spec.precision);
}

// Output row stride·n + p meets input row i through kernel element p + padding + stride·(n − i).
absl::StatusOr<TransposedConv> WeightLoader::LoadTransposedConv(std::string_view module,
                                                                const TransposedConvSpec& spec) {
  KINORA_CHECK(spec.kernel >= spec.stride && (spec.kernel - spec.stride) % 2 == 0) << FullName(module);
  const int64_t stride = spec.stride, padding = (spec.kernel - stride) / 2;
  TransposedConv conv;
  conv.before = static_cast<int>((spec.kernel - 1 - padding) / stride);
  conv.after = static_cast<int>((stride - 1 + padding) / stride);
  conv.taps = conv.before + conv.after + 1;
  const Located weight = Locate(FullName(Cat(module, ".weight")), {spec.in, spec.out, spec.kernel});
  const Located file_bias = Locate(FullName(Cat(module, ".bias")), {spec.out});
  const bool dry = !state_->reads();
  KINORA_ASSIGN_OR_RETURN(Buffer matrix, HostFloats(stride * spec.out * conv.taps * spec.in, dry));
  KINORA_ASSIGN_OR_RETURN(Buffer bias, HostFloats(stride * spec.out, dry));
  std::vector<float> file(dry ? 0 : spec.in * spec.out * spec.kernel), biases(dry ? 0 : spec.out);
  KINORA_RETURN_IF_ERROR(Read(weight, Split::kNone, file.data()));
  KINORA_RETURN_IF_ERROR(Read(file_bias, Split::kNone, biases.data()));
  for (int64_t row = 0; !dry && row < stride * spec.out; ++row) {
    const int64_t phase = row / spec.out, c = row % spec.out;
    *At(bias, row) = biases[c];
    for (int64_t tap = 0; tap < conv.taps; ++tap) {
      const int64_t k = phase + padding + stride * (conv.before - tap);
      float* to = At(matrix, (row * conv.taps + tap) * spec.in);
      for (int64_t i = 0; i < spec.in; ++i) {
        to[i] = k >= 0 && k < spec.kernel ? file[(i * spec.out + c) * spec.kernel + k] : 0.0f;
      }
    }
  }
  KINORA_ASSIGN_OR_RETURN(conv.weight,
                          Pack(HostView(matrix, {stride * spec.out, conv.taps, spec.in}), bias, spec.precision));
  return conv;
}

absl::StatusOr<Parameter> WeightLoader::LoadTensor(std::string_view relative, const Shape& full,
                                                   const TensorSpec& spec) {
  KINORA_CHECK(spec.dtype == DType::kF32 || spec.dtype == DType::kBF16) << DTypeName(spec.dtype);
  const std::string name = FullName(relative);
  const int axis = spec.split == Split::kColumns ? full.rank() - 1 : 0;
  Shape shape = full;
  if (spec.split != Split::kNone) {
    KINORA_ASSIGN_OR_RETURN(const int64_t part, PartOf(full[axis], spec.split, name));
    shape = WithExtent(full, axis, part);
  }
  const Located located = Locate(name, full);
  const int64_t bytes = shape.elements() * DTypeSize(spec.dtype);
  state_->tensor_bytes += bytes;
  if (!state_->reads()) return Parameter(Buffer::Dry(bytes), Tensor(spec.dtype, shape, nullptr));
  KINORA_ASSIGN_OR_RETURN(Buffer buffer, Buffer::Allocate(bytes, name));
  const Tensor tensor(spec.dtype, shape, buffer.data());
  if (spec.dtype == DType::kF32) {
    KINORA_RETURN_IF_ERROR(Read(located, spec.split, tensor.data<float>()));
    if (spec.add != 0) std::for_each_n(tensor.data<float>(), tensor.elements(), [&](float& x) { x += spec.add; });
  } else {
    KINORA_RETURN_IF_ERROR(ReadRounded(located, spec, tensor));
  }
  return Parameter(std::move(buffer), tensor);
}

// In pieces: an embedding table in float32 is gigabytes.
absl::Status WeightLoader::ReadRounded(const Located& located, const TensorSpec& spec, const Tensor& out) {
  KINORA_CHECK(spec.split != Split::kColumns && out.shape().rank() > 0) << located.name;
  const int64_t first = spec.split == Split::kNone ? 0 : out.dim(0) * mesh_->tensor().rank();
  const int64_t width = out.elements() / std::max<int64_t>(1, out.dim(0));
  const int64_t rows_each = std::max<int64_t>(1, kChunkElements / std::max<int64_t>(1, width));
  std::vector<float> wide(std::min(rows_each, out.dim(0)) * width);
  for (int64_t row = 0; row < out.dim(0); row += rows_each) {
    const int64_t rows = std::min(rows_each, out.dim(0) - row);
    KINORA_RETURN_IF_ERROR(located.source->ReadRows(first + row, first + row + rows, wide.data()));
    CheckFinite(located.name, wide.data(), rows * width);
    std::transform(wide.begin(), wide.begin() + rows * width, out.data<bf16>() + row * width,
                   [&](float value) { return bf16(value + spec.add); });
  }
  return absl::OkStatus();
}

absl::Status WeightLoader::Finish() const {
  if (state_->checkpoint == nullptr) return absl::OkStatus();
  std::vector<std::string> problems = state_->problems;
  for (const auto& [name, entry] : state_->checkpoint->tensors()) {
    if (!state_->components.contains(ComponentOf(name)) || state_->read.contains(name) || IsKnownUnread(name)) continue;
    problems.push_back(Cat(state_->checkpoint->Describe(name), ": nothing reads it"));
  }
  if (problems.empty()) return absl::OkStatus();
  const size_t listed = std::min(problems.size(), kListedProblems);
  std::string message =
      Cat(problems.size(), problems.size() == 1 ? " problem" : " problems",
          " with the model's tensors: ", absl::StrJoin(problems.begin(), problems.begin() + listed, "; "));
  if (problems.size() > listed) message += Cat("; and ", problems.size() - listed, " more");
  return absl::InvalidArgumentError(message);
}

}  // namespace kinora
