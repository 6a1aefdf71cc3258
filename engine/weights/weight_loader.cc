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
constexpr int64_t kChunkElements = int64_t{1} << 18;  // 1 MiB of float32, which a thread reads and rounds at a time

float* Floats(const Buffer& buffer) { return static_cast<float*>(buffer.data()); }

absl::StatusOr<Buffer> HostFloats(int64_t count, bool dry) {
  const int64_t bytes = count * static_cast<int64_t>(sizeof(float));
  return dry ? Buffer::Dry(bytes) : Buffer::Allocate(bytes, "a weight matrix on its way");
}

// Row (phase, c) of the ordinary convolution that equals a transposed one.   file: [in, out, kernel]   to: [taps, in]
// Output row stride·n + p meets input row i through kernel element p + padding + stride·(n − i).
void PhaseRow(const float* file, const TransposedConvSpec& spec, const TransposedConv& conv, int64_t row, float* to) {
  const int64_t phase = row / spec.out, c = row % spec.out, padding = (spec.kernel - spec.stride) / 2;
  for (int64_t tap = 0; tap < conv.taps; ++tap, to += spec.in) {
    const int64_t k = phase + padding + spec.stride * (conv.before - tap);
    const bool inside = k >= 0 && k < spec.kernel;
    for (int64_t i = 0; i < spec.in; ++i) to[i] = inside ? file[(i * spec.out + c) * spec.kernel + k] : 0.0f;
  }
}

}  // namespace

struct WeightLoader::State {
  std::shared_ptr<const Checkpoint> checkpoint;  // null: a dry run without a file
  Backend* backend = nullptr;
  Precision precision;
  std::shared_ptr<WeightSet> weights;
  std::set<std::string, std::less<>> read;        // canonical names requested, found or not
  std::set<std::string, std::less<>> components;  // those of `read`
  std::set<std::string, std::less<>> not_finite;  // tensors already noted
  std::vector<std::string> problems;
  bool misfit = false;  // a name, shape or dtype is a problem: the model is rejected, so no more data is read
  std::vector<RecordedTensor> recorded;
  int64_t tensor_bytes = 0;

  bool reads() const { return checkpoint != nullptr && !backend->ops().dry() && !misfit; }
  void NoteMisfit(std::string problem) {
    problems.push_back(std::move(problem));
    misfit = true;
  }
};

absl::StatusOr<WeightLoader> WeightLoader::Open(std::shared_ptr<const Checkpoint> checkpoint, const Mesh& mesh,
                                                Backend& backend, const Precision& precision) {
  KINORA_RETURN_IF_ERROR(precision.CheckOn(backend.traits()));
  for (const auto& [name, entry] : checkpoint->tensors()) {
    if (name.ends_with(".weight_scale_2")) {
      return absl::InvalidArgumentError(Cat(checkpoint->Describe(name),
                                            " marks NVFP4 weights; NVFP4 is not supported, use the "
                                            "bfloat16 or the per-tensor FP8 files"));
    }
  }
  auto state = std::make_shared<State>();
  state->weights = std::make_shared<WeightSet>(checkpoint);
  state->checkpoint = std::move(checkpoint);
  state->backend = &backend;
  state->precision = precision;
  return WeightLoader(std::move(state), mesh);
}

WeightLoader WeightLoader::Dry(const Mesh& mesh, Backend& backend, const Precision& precision) {
  KINORA_CHECK(backend.ops().dry()) << "a dry loader has no values for a real backend";
  auto state = std::make_shared<State>();
  state->backend = &backend;
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

WeightLoader WeightLoader::HeldElsewhere() const {
  WeightLoader other = *this;
  other.elsewhere_ = true;
  return other;
}

bool WeightLoader::reads() const { return !elsewhere_ && state_->reads(); }

std::string WeightLoader::FullName(std::string_view name) const { return Cat(prefix_, name); }

bool WeightLoader::Has(std::string_view name) const {
  return state_->checkpoint != nullptr && state_->checkpoint->Find(FullName(name)) != nullptr;
}

const Precision& WeightLoader::precision() const { return state_->precision; }
std::shared_ptr<WeightSet> WeightLoader::weights() const { return state_->weights; }
Backend& WeightLoader::backend() const { return *state_->backend; }
const Mesh& WeightLoader::mesh() const { return *mesh_; }
const std::vector<RecordedTensor>& WeightLoader::recorded() const { return state_->recorded; }

int64_t WeightLoader::tensor_bytes() const { return state_->tensor_bytes; }

int64_t WeightLoader::recorded_elements() const {
  int64_t elements = 0;
  for (const RecordedTensor& tensor : state_->recorded) elements += tensor.shape.elements();
  return elements;
}

// Returns the scale of per-tensor FP8, `NAME.weight_scale`; 1 without one: the weights are plain FP8 values.
float WeightLoader::ScaleOf(const std::string& name, const TensorInfo& weight) {
  constexpr std::string_view kWeight = ".weight";
  if ((weight.dtype != DType::kF8E4M3 && weight.dtype != DType::kF8E5M2) || !name.ends_with(kWeight)) return 1.0f;
  const std::string module = name.substr(0, name.size() - kWeight.size());
  state_->read.insert(Cat(module, ".input_scale"));  // for FP8 arithmetic only; dequantised weights need none
  const std::string scale_name = Cat(module, ".weight_scale");
  const Checkpoint::Entry* entry = state_->checkpoint->Find(scale_name);
  if (entry == nullptr) return 1.0f;
  state_->read.insert(scale_name);
  if (entry->tensor->dtype != DType::kF32 || entry->tensor->shape.elements() != 1) {
    state_->NoteMisfit(Cat(state_->checkpoint->Describe(scale_name), ": ", DTypeName(entry->tensor->dtype), " ",
                           entry->tensor->shape.ToString(), "; only one float32 scale per tensor is supported"));
    return 1.0f;
  }
  float scale = 1.0f;
  const absl::Status status = TensorSource(*entry, 1.0f).Read({.rows = 1, .columns = 1}, DType::kF32, &scale);
  if (!status.ok()) state_->NoteMisfit(std::string(status.message()));
  if (!AllFinite(DType::kF32, &scale, 1))
    state_->NoteMisfit(Cat(state_->checkpoint->Describe(scale_name), ": not finite"));
  return scale;
}

LocatedTensor WeightLoader::Locate(std::string name, const Shape& full) {
  std::optional<TensorSource> source = Find(name, full);
  return {std::move(name), full, source, std::make_shared<std::atomic<bool>>(false)};
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
  if (!reads()) return std::nullopt;
  return TensorSource(*entry, scale);
}

void WeightLoader::NoteIfNotFinite(const LocatedTensor& tensor) {
  if (!*tensor.not_finite || !state_->not_finite.insert(tensor.name).second) return;
  state_->problems.push_back(Cat(state_->checkpoint->Describe(tensor.name), ": holds NaN or infinity"));
}

absl::StatusOr<int64_t> WeightLoader::PartOf(int64_t extent, Split split, const std::string& name) const {
  const int size = split == Split::kNone ? 1 : mesh_->tensor().size();
  if (extent % size == 0) return extent / size;
  return absl::InvalidArgumentError(Cat(name, ": ", extent, " does not divide into ", size, " tensor ranks"));
}

absl::Status WeightLoader::ReadTensor(const LocatedTensor& tensor, int64_t first, float add, const Tensor& out) {
  if (!reads()) return absl::OkStatus();
  const int64_t rows = out.shape().rank() == 0 ? 1 : out.dim(0), width = out.elements() / std::max<int64_t>(1, rows);
  const int64_t rows_each = std::max<int64_t>(1, kChunkElements / std::max<int64_t>(1, width));
  std::vector<absl::Status> chunks((rows + rows_each - 1) / rows_each);
  const bool as_is = out.dtype() == DType::kF32 || (tensor.source->dtype() == DType::kBF16 && add == 0);
  state_->backend->RunOnHost(static_cast<int64_t>(chunks.size()), [&](int64_t chunk) {
    const int64_t row = chunk * rows_each, count = std::min(rows_each, rows - row) * width;
    const Block block{.row = first + row, .rows = std::min(rows_each, rows - row), .columns = width};
    char* to = static_cast<char*>(out.raw()) + row * width * DTypeSize(out.dtype());
    if (as_is) {
      chunks[chunk] = tensor.Read(block, out.dtype(), to);
      if (add != 0) std::for_each_n(reinterpret_cast<float*>(to), count, [add](float& x) { x += add; });
    } else {
      std::vector<float> wide(count);
      chunks[chunk] = tensor.Read(block, DType::kF32, wide.data());
      std::transform(wide.begin(), wide.end(), reinterpret_cast<bf16*>(to),
                     [add](float value) { return bf16(value + add); });
    }
  });
  for (absl::Status& status : chunks) KINORA_RETURN_IF_ERROR(std::move(status));
  NoteIfNotFinite(tensor);
  return absl::OkStatus();
}

// Reads this rank's part of a bias: all of it, or the `extent` elements after those of lower ranks.
absl::StatusOr<Buffer> WeightLoader::ReadBias(const LocatedTensor& tensor, int64_t extent) {
  KINORA_ASSIGN_OR_RETURN(Buffer bias, HostFloats(extent, !reads()));
  const int64_t first = extent == tensor.full.elements() ? 0 : extent * mesh_->tensor().rank();
  KINORA_RETURN_IF_ERROR(ReadTensor(tensor, first, /*add=*/0, Tensor(DType::kF32, {extent}, bias.data())));
  return bias;
}

absl::StatusOr<std::vector<Weight>> WeightLoader::PackRows(const WeightRows& rows, const Buffer& bias, DType dtype) {
  if (elsewhere_ || (!state_->backend->ops().dry() && state_->misfit)) {  // weights that are never used
    std::vector<Weight> empty;
    empty.reserve(rows.count);
    for (int n = 0; n < rows.count; ++n) {
      empty.emplace_back(dtype, rows.out, rows.taps, rows.in, n == 0 && bias.bytes() > 0, nullptr);
    }
    return empty;
  }
  const Tensor bias_view(DType::kF32, {rows.out}, bias.data());
  return state_->backend->ops().PrepareWeights(rows, bias.bytes() > 0 ? &bias_view : nullptr, dtype);
}

absl::StatusOr<std::vector<Weight>> WeightLoader::Pack(WeightRecipe recipe, const Buffer& bias,
                                                       std::optional<DType> precision) {
  recipe.stored = precision.value_or(state_->precision.Of(recipe.tensors[0].name));
  std::vector<Weight> packed;
  KINORA_RETURN_IF_ERROR(recipe.WithRows([&](const WeightRows& rows) -> absl::Status {
    KINORA_ASSIGN_OR_RETURN(packed, PackRows(rows, bias, recipe.stored));
    return absl::OkStatus();
  }));
  for (const LocatedTensor& tensor : recipe.tensors) NoteIfNotFinite(tensor);
  if (elsewhere_ && state_->weights != nullptr) {
    for (const LocatedTensor& tensor : recipe.tensors) state_->weights->AddElsewhere(tensor);
  }
  if (!reads()) return packed;
  std::vector<std::shared_ptr<WeightStorage>> storage;
  storage.reserve(packed.size());
  for (const Weight& weight : packed) storage.push_back(weight.storage());
  state_->weights->Add(std::move(recipe), std::move(storage));
  return packed;
}

absl::StatusOr<Weight> WeightLoader::LoadWeight(std::initializer_list<std::string_view> modules,
                                                const WeightSpec& spec) {
  const Split rows = spec.split == Split::kRows ? Split::kRows : Split::kNone;
  const Split columns = spec.split == Split::kColumns ? Split::kColumns : Split::kNone;
  std::vector<LocatedTensor> weights, biases;
  for (std::string_view module : modules) {
    weights.push_back(Locate(FullName(Cat(module, ".weight")), {spec.out, spec.in}));
    if (spec.bias) biases.push_back(Locate(FullName(Cat(module, ".bias")), {spec.out}));
  }
  // The products of column slices are summed over the ranks, so only one rank may add the bias.
  if (columns == Split::kColumns && mesh_->tensor().rank() != 0) biases.clear();
  KINORA_ASSIGN_OR_RETURN(const int64_t out, PartOf(spec.out, rows, weights[0].name));
  KINORA_ASSIGN_OR_RETURN(const int64_t in, PartOf(spec.in, columns, weights[0].name));
  const int64_t all_out = out * static_cast<int64_t>(weights.size());
  KINORA_ASSIGN_OR_RETURN(const Buffer bias, HostFloats(biases.empty() ? 0 : all_out, !reads()));
  for (size_t i = 0; i < biases.size() && reads(); ++i) {
    KINORA_ASSIGN_OR_RETURN(const Buffer part, ReadBias(biases[i], out));
    std::copy_n(Floats(part), out, Floats(bias) + i * out);
  }
  const Block part{.row = rows == Split::kRows ? out * mesh_->tensor().rank() : 0,
                   .rows = out,
                   .column = columns == Split::kColumns ? in * mesh_->tensor().rank() : 0,
                   .columns = in};
  WeightRecipe recipe{.tensors = std::move(weights), .out = all_out, .in = in, .part = part};
  recipe.read = [part](absl::Span<const LocatedTensor> from, DType dtype, int64_t begin, int64_t end, void* to) {
    return ReadStackedRows(from, part, dtype, begin, end, to);
  };
  KINORA_ASSIGN_OR_RETURN(std::vector<Weight> packed, Pack(std::move(recipe), bias, spec.precision));
  return std::move(packed.front());
}

absl::StatusOr<std::vector<Weight>> WeightLoader::LoadInterleaved(std::string_view module,
                                                                  const InterleavedSpec& spec) {
  const LocatedTensor weight = Locate(FullName(Cat(module, ".weight")), {spec.out, spec.in * spec.count});
  Buffer bias;
  if (spec.bias) {
    const LocatedTensor located = Locate(FullName(Cat(module, ".bias")), {spec.out});
    if (spec.begin == 0) {
      KINORA_ASSIGN_OR_RETURN(bias, ReadBias(located, spec.out));
    }
  }
  WeightRecipe recipe{
      .tensors = {weight}, .out = spec.out, .in = spec.in, .count = static_cast<int>(spec.end - spec.begin)};
  recipe.read = [spec](absl::Span<const LocatedTensor> from, DType dtype, int64_t begin, int64_t end, void* to) {
    return ReadInterleavedRows(from[0], spec, dtype, begin, end, to);
  };
  return Pack(std::move(recipe), bias, {});
}

absl::StatusOr<Weight> WeightLoader::LoadConv(std::string_view module, const ConvSpec& spec) {
  KINORA_CHECK(spec.out % spec.order.factor.product() == 0 && spec.kept <= spec.out) << FullName(module);
  KINORA_CHECK(spec.kept == 0 || spec.order.factor.product() == 1) << FullName(module);
  std::vector<int64_t> dims = {spec.out, spec.in};
  dims.insert(dims.end(), spec.kernel.dims().begin(), spec.kernel.dims().end());
  const LocatedTensor weight = Locate(FullName(Cat(module, ".weight")), Shape(dims));
  Buffer bias;
  if (spec.bias) {
    KINORA_ASSIGN_OR_RETURN(bias, ReadBias(Locate(FullName(Cat(module, ".bias")), {spec.out}), spec.out));
  }
  if (bias.data() != nullptr) {
    const std::vector<float> in_file(Floats(bias), Floats(bias) + spec.out);
    for (int64_t o = 0; o < spec.wanted(); ++o) Floats(bias)[o] = in_file[FileChannel(spec.order, spec.out, o)];
  }
  WeightRecipe recipe{.tensors = {weight}, .out = spec.wanted(), .taps = spec.kernel.elements(), .in = spec.in};
  recipe.read = [spec](absl::Span<const LocatedTensor> from, DType dtype, int64_t begin, int64_t end, void* to) {
    return ReadConvRows(from[0], spec, dtype, begin, end, to);
  };
  KINORA_ASSIGN_OR_RETURN(std::vector<Weight> packed, Pack(std::move(recipe), bias, spec.precision));
  return std::move(packed.front());
}

absl::StatusOr<TransposedConv> WeightLoader::LoadTransposedConv(std::string_view module,
                                                                const TransposedConvSpec& spec) {
  KINORA_CHECK(spec.kernel >= spec.stride && (spec.kernel - spec.stride) % 2 == 0) << FullName(module);
  const int64_t stride = spec.stride, padding = (spec.kernel - stride) / 2;
  TransposedConv conv;
  conv.before = static_cast<int>((spec.kernel - 1 - padding) / stride);
  conv.after = static_cast<int>((stride - 1 + padding) / stride);
  conv.taps = conv.before + conv.after + 1;
  const LocatedTensor weight = Locate(FullName(Cat(module, ".weight")), {spec.in, spec.out, spec.kernel});
  const LocatedTensor file_bias = Locate(FullName(Cat(module, ".bias")), {spec.out});
  const bool dry = !reads();
  KINORA_ASSIGN_OR_RETURN(const Buffer file, HostFloats(weight.full.elements(), dry));
  KINORA_RETURN_IF_ERROR(ReadTensor(weight, 0, /*add=*/0, Tensor(DType::kF32, weight.full, file.data())));
  KINORA_ASSIGN_OR_RETURN(const Buffer channel_bias, ReadBias(file_bias, spec.out));
  KINORA_ASSIGN_OR_RETURN(const Buffer bias, HostFloats(stride * spec.out, dry));
  for (int64_t phase = 0; !dry && phase < stride; ++phase) {
    std::copy_n(Floats(channel_bias), spec.out, Floats(bias) + phase * spec.out);
  }
  const auto read = [&](int64_t begin, int64_t end, void* rows) {
    for (int64_t row = begin; row < end; ++row) {
      PhaseRow(Floats(file), spec, conv, row, static_cast<float*>(rows) + (row - begin) * conv.taps * spec.in);
    }
    return absl::OkStatus();
  };
  KINORA_ASSIGN_OR_RETURN(std::vector<Weight> packed,
                          PackRows({.out = stride * spec.out, .taps = conv.taps, .in = spec.in, .read = read}, bias,
                                   spec.precision.value_or(state_->precision.Of(weight.name))));
  conv.weight = std::move(packed.front());
  return conv;
}

absl::StatusOr<Parameter> WeightLoader::LoadTensor(std::string_view name, const Shape& full, const TensorSpec& spec) {
  KINORA_ASSIGN_OR_RETURN(HostParameter parameter, LoadOnHost(name, full, spec));
  return Upload(std::move(parameter));
}

absl::StatusOr<Parameter> WeightLoader::Upload(HostParameter parameter) {
  if (!elsewhere_) state_->tensor_bytes += parameter.tensor().bytes();
  return std::move(parameter).Upload(*state_->backend);
}

absl::StatusOr<Weight> WeightLoader::Prepare(const HostParameter& matrix, const Shape& shape, DType dtype) {
  Ops& ops = state_->backend->ops();
  if (!ops.dry() && !matrix.has_values())
    return Weight(dtype, shape[0], shape.elements() / shape[0] / shape[-1], shape[-1], false, nullptr);
  return ops.PrepareWeight(matrix.tensor().Reshape(shape), /*bias=*/nullptr, dtype);
}

absl::StatusOr<HostParameter> WeightLoader::LoadOnHost(std::string_view relative, const Shape& full,
                                                       const TensorSpec& spec) {
  KINORA_CHECK(spec.dtype == DType::kF32 || spec.dtype == DType::kBF16) << DTypeName(spec.dtype);
  KINORA_CHECK(spec.split != Split::kColumns && (spec.split == Split::kNone || full.rank() > 0)) << relative;
  const std::string name = FullName(relative);
  Shape shape = full;
  int64_t first = 0;
  if (spec.split == Split::kRows) {
    KINORA_ASSIGN_OR_RETURN(const int64_t part, PartOf(full[0], spec.split, name));
    first = part * mesh_->tensor().rank();
    shape = Tensor(spec.dtype, full, nullptr).Rows(first, first + part).shape();
  }
  const LocatedTensor located = Locate(name, full);
  const int64_t bytes = shape.elements() * DTypeSize(spec.dtype);
  if (!reads()) return HostParameter(name, spec.dtype, shape, Buffer::Dry(bytes));
  KINORA_ASSIGN_OR_RETURN(HostParameter parameter, HostParameter::Allocate(name, spec.dtype, shape));
  KINORA_RETURN_IF_ERROR(ReadTensor(located, first, spec.add, parameter.tensor()));
  return parameter;
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
