#include "tests/bench/model_parts.h"

#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/config/config_reader.h"
#include "engine/model/diffusion_video_decoder.h"
#include "engine/model/gemma.h"
#include "engine/model/latent_upsampler.h"
#include "engine/model/video_decoder.h"
#include "engine/model/video_encoder.h"
#include "engine/pipeline/velocity_model.h"

namespace kinora {
namespace {

// Common to all parts: ops, weights, memory.
class Loaded : public ModelPart {
 public:
  absl::Status Open(const PartOptions& options) {
    precision_ = options.precision;
    KINORA_ASSIGN_OR_RETURN(inputs_, InputFile::Open(options.inputs));
    KINORA_ASSIGN_OR_RETURN(checkpoint_, Checkpoint::Open(options.files));
    KINORA_ASSIGN_OR_RETURN(config_, ReadModelConfig(*checkpoint_));
    KINORA_ASSIGN_OR_RETURN(backend_, OpenBackend("cpu", {.threads = options.threads}));
    return Load();
  }
  double flops() const override { return flops_; }
  int64_t arena_bytes() const override { return arena_->capacity(); }

 protected:
  virtual absl::Status Load() = 0;

  absl::StatusOr<WeightLoader> Weights() { return WeightLoader::Open(checkpoint_, *mesh_, *backend_, precision_); }
  Exec On(Backend& backend, Arena& arena) const {
    return {.backend = backend, .arena = arena, .host = arena, .mesh = *mesh_, .dtype = precision_};
  }
  Exec exec() { return On(*backend_, *arena_); }
  absl::Status Reserve(int64_t bytes) {
    KINORA_ASSIGN_OR_RETURN(Buffer memory, Buffer::Allocate(bytes));
    arena_.emplace(std::move(memory));
    return absl::OkStatus();
  }
  void Finish() {
    const absl::Status status = backend_->ops().stream().Synchronize();
    KINORA_CHECK(status.ok()) << status.ToString();
  }

  std::optional<InputFile> inputs_;
  std::shared_ptr<const Checkpoint> checkpoint_;
  ModelConfig config_;
  DType precision_ = DType::kF32;
  std::unique_ptr<Mesh> mesh_ = Mesh::Single();
  std::unique_ptr<Backend> backend_;
  std::optional<Arena> arena_;
  double flops_ = 0;
};

std::vector<std::vector<float>> AxesOf(const Tensor& positions) {
  std::vector<std::vector<float>> axes;
  for (int64_t axis = 0; axis < positions.dim(0); ++axis) {
    const float* begin = positions.data<float>() + axis * positions.dim(1);
    axes.emplace_back(begin, begin + positions.dim(1));
  }
  return axes;
}

Tensor ToDevice(Exec& exec, const Tensor& from, DType dtype) {
  Tensor out = exec.arena.Alloc(dtype, from.shape());
  if (!exec.ops.dry()) exec.ops.stream().Copy(from, out);
  return out;
}

// The transformer over the inputs, with the tensors of its forward pass.
struct ForwardPass {
  std::optional<VelocityModel> model;
  PerModality<Tensor> z, v;

  static absl::StatusOr<ForwardPass> Prepare(Exec& exec, const Transformer& transformer, const InputFile& in) {
    const Tensor& video = in.Get("video");
    const Tensor& audio = in.Get("audio");
    const float sigma = *in.Get("sigma").data<float>();
    VelocityInputs inputs;  // assigned by field: g++ 12 reports false uninitialized warnings for nested braces
    inputs.of.video.positions = AxesOf(in.Get("video_positions"));
    inputs.of.audio.positions = AxesOf(in.Get("audio_positions"));
    inputs.of.video.sigmas = inputs.of.audio.sigmas = {sigma};
    inputs.cond = {.video = ToDevice(exec, in.Get("video_context"), exec.dtype),
                   .audio = ToDevice(exec, in.Get("audio_context"), exec.dtype)};
    ForwardPass pass;
    KINORA_ASSIGN_OR_RETURN(pass.model, VelocityModel::Prepare(exec, transformer, inputs));
    pass.z.video = exec.arena.Alloc(DType::kF32, {pass.model->rows().video, video.width()});
    exec.ops.Fill(0.0f, pass.z.video);
    if (!exec.ops.dry()) exec.ops.stream().Copy(video, pass.z.video.Rows(0, video.rows()));
    pass.z.audio = ToDevice(exec, audio, DType::kF32);
    pass.v = {exec.arena.Alloc(DType::kF32, {video.rows(), video.width()}),
              exec.arena.Alloc(DType::kF32, {audio.rows(), audio.width()})};
    const Tensor step = exec.arena.Alloc(DType::kI32, {1});
    const int32_t first = 0;
    exec.ops.stream().CopyFromHost(&first, step);
    pass.model->SelectStep(exec, step);
    return pass;
  }
  void Run(Exec& exec) const { model->Forward(exec, {}, z, v); }
};

class TransformerPart : public Loaded {
 public:
  void Run() override {
    graph_->Replay();
    Finish();
  }
  std::vector<std::pair<std::string, Tensor>> outputs() const override {
    return {{"video", pass_.v.video}, {"audio", pass_.v.audio}};
  }

 private:
  absl::Status Load() override {
    DryBackend dry_backend;
    const DryOps& dry_ops = dry_backend.ops();
    Arena dry_arena = Arena::Dry();
    Exec dry = On(dry_backend, dry_arena);
    const WeightLoader dry_weights = WeightLoader::Dry(*mesh_, dry_backend, precision_);
    KINORA_ASSIGN_OR_RETURN(auto dry_model, Transformer::Load(dry_weights.Under("transformer"), config_.transformer));
    KINORA_ASSIGN_OR_RETURN(const ForwardPass dry_pass, ForwardPass::Prepare(dry, *dry_model, *inputs_));
    dry_backend.ops().ResetCost();
    dry_pass.Run(dry);
    flops_ = static_cast<double>(dry_ops.cost().flops());
    KINORA_RETURN_IF_ERROR(Reserve(dry_arena.peak()));

    KINORA_ASSIGN_OR_RETURN(WeightLoader weights, Weights());
    KINORA_ASSIGN_OR_RETURN(transformer_, Transformer::Load(weights.Under("transformer"), config_.transformer));
    KINORA_RETURN_IF_ERROR(weights.Finish());
    exec_.emplace(exec());
    KINORA_ASSIGN_OR_RETURN(pass_, ForwardPass::Prepare(*exec_, *transformer_, *inputs_));
    KINORA_ASSIGN_OR_RETURN(graph_, backend_->ops().stream().Capture([this] { pass_.Run(*exec_); }));
    return absl::OkStatus();
  }

  std::unique_ptr<Transformer> transformer_;
  std::optional<Exec> exec_;
  ForwardPass pass_;
  std::unique_ptr<Graph> graph_;
};

// A module with one f32 input and one f32 output.
class TensorPart : public Loaded {
 public:
  TensorPart(std::string in, std::string out) : in_(std::move(in)), out_(std::move(out)) {}
  void Run() override {
    Exec e = exec();
    Forward(e, inputs_->Get(in_), made_);
    Finish();
  }
  std::vector<std::pair<std::string, Tensor>> outputs() const override { return {{out_, made_}}; }

 protected:
  // Each part of "vae" that is read must be read completely, or WeightLoader::Finish fails.
  absl::Status LoadDecoder(WeightLoader& weights) {
    KINORA_ASSIGN_OR_RETURN(decoder_, VideoDecoder::Load(weights.Under("vae"), config_.video_decoder));
    return absl::OkStatus();
  }
  virtual absl::Status LoadModule(WeightLoader& weights) = 0;
  virtual absl::StatusOr<Shape> OutputShape(const Shape& in) const = 0;
  virtual void Forward(Exec& exec, const Tensor& in, Tensor out) const = 0;

 private:
  absl::Status Load() override {
    KINORA_ASSIGN_OR_RETURN(WeightLoader weights, Weights());
    KINORA_RETURN_IF_ERROR(LoadModule(weights));
    KINORA_RETURN_IF_ERROR(weights.Finish());
    const Tensor& in = inputs_->Get(in_);
    KINORA_ASSIGN_OR_RETURN(const Shape shape, OutputShape(in.shape()));
    DryBackend dry_backend;
    const DryOps& dry_ops = dry_backend.ops();
    Arena dry_arena = Arena::Dry();
    Exec dry = On(dry_backend, dry_arena);
    Forward(dry, in, dry_arena.Alloc(DType::kF32, shape));
    flops_ = static_cast<double>(dry_ops.cost().flops());
    KINORA_RETURN_IF_ERROR(Reserve(dry_arena.peak()));
    made_ = arena_->Alloc(DType::kF32, shape);
    return absl::OkStatus();
  }

  const std::string in_, out_;
  Tensor made_;

 protected:
  std::optional<VideoDecoder> decoder_;
};

class VideoDecoderPart : public TensorPart {
 public:
  VideoDecoderPart() : TensorPart("latent", "frames") {}

 private:
  absl::Status LoadModule(WeightLoader& weights) override { return LoadDecoder(weights); }
  absl::StatusOr<Shape> OutputShape(const Shape& latent) const override {
    KINORA_RETURN_IF_ERROR(decoder_->CheckLatent(latent));
    return decoder_->OutputShape(latent);
  }
  void Forward(Exec& exec, const Tensor& latent, Tensor frames) const override {
    decoder_->Forward(exec, latent, frames);
  }
};

// As one tile.
class DiffusionDecoderPart : public TensorPart {
 public:
  DiffusionDecoderPart() : TensorPart("latent", "frames") {}

 private:
  absl::Status LoadModule(WeightLoader& weights) override {
    if (!config_.video_decoder.diffusion) return absl::InvalidArgumentError("the model has no diffusion decoder");
    KINORA_ASSIGN_OR_RETURN(diffusion_, DiffusionVideoDecoder::Load(weights.Under("vae"), config_.video_decoder, {}));
    return absl::OkStatus();
  }
  DiffusionVideoDecoder::Tile TileOf(const Shape& latent) const {
    return {.end = diffusion_->CellsOf(latent), .last = true};
  }
  absl::StatusOr<Shape> OutputShape(const Shape& latent) const override {
    return diffusion_->OutputShape(TileOf(latent));
  }
  void Forward(Exec& exec, const Tensor& latent, Tensor frames) const override {
    const ArenaScope scope(exec.arena);
    const Tensor& noise = inputs_->Get("noise");
    const Tensor features = diffusion_->Features(exec, latent, &absl::OkStatus).value();
    KINORA_CHECK(diffusion_
                     ->Decode(exec, features, TileOf(latent.shape()),
                              {.values = {noise.data<float>(), size_t(noise.elements())}}, &absl::OkStatus, frames)
                     .ok());
  }
  std::optional<DiffusionVideoDecoder> diffusion_;
};

class VideoEncoderPart : public TensorPart {
 public:
  VideoEncoderPart() : TensorPart("pixels", "latent") {}

 private:
  absl::Status LoadModule(WeightLoader& weights) override {
    KINORA_ASSIGN_OR_RETURN(encoder_, VideoEncoder::Load(weights.Under("vae"), config_.video_encoder));
    return LoadDecoder(weights);
  }
  absl::StatusOr<Shape> OutputShape(const Shape& pixels) const override {
    KINORA_RETURN_IF_ERROR(encoder_->CheckPixels(pixels));
    return encoder_->OutputShape(pixels);
  }
  void Forward(Exec& exec, const Tensor& pixels, Tensor latent) const override {
    encoder_->Forward(exec, pixels, latent);
  }
  std::optional<VideoEncoder> encoder_;
};

class UpsamplerPart : public TensorPart {
 public:
  UpsamplerPart() : TensorPart("latent", "upsampled") {}

 private:
  absl::Status LoadModule(WeightLoader& weights) override {
    constexpr char kName[] = "spatial_upsampler";
    KINORA_ASSIGN_OR_RETURN(config_of_, ReadUpsamplerConfig(*checkpoint_, kName));
    KINORA_ASSIGN_OR_RETURN(upsampler_, LatentUpsampler::Load(weights.Under(kName), weights.Under("vae"), config_of_));
    return LoadDecoder(weights);
  }
  absl::StatusOr<Shape> OutputShape(const Shape& latent) const override { return config_of_.OutputShape(latent); }
  void Forward(Exec& exec, const Tensor& latent, Tensor out) const override { upsampler_->Forward(exec, latent, out); }

  UpsamplerConfig config_of_;
  std::optional<LatentUpsampler> upsampler_;
};

class GemmaPart : public Loaded {
 public:
  void Run() override {
    Exec e = exec();
    Forward(e);
    Finish();
  }
  std::vector<std::pair<std::string, Tensor>> outputs() const override { return {{"hidden", hidden_}}; }

 private:
  void Forward(Exec& e) {
    gemma_->Forward(e, ids_, lengths_, hidden_, [&](int64_t index, const Tensor& hidden) {
      if (index == gemma_->states() - 1) e.ops.stream().Copy(hidden, hidden_);
    });
  }
  absl::Status Load() override {
    if (!config_.gemma.has_value()) return absl::InvalidArgumentError("no text encoder among the model's files");
    const Tensor& ids = inputs_->Get("input_ids");
    for (int64_t i = 0; i < ids.elements(); ++i) ids_.push_back(static_cast<int32_t>(ids.data<int64_t>()[i]));
    lengths_.assign(ids.dim(0), ids.dim(1));
    KINORA_ASSIGN_OR_RETURN(WeightLoader weights, Weights());
    KINORA_ASSIGN_OR_RETURN(gemma_, Gemma::Load(weights.Under("text_encoder"), *config_.gemma, config_.connector.rows));
    KINORA_RETURN_IF_ERROR(weights.Finish());
    DryBackend dry_backend;
    const DryOps& dry_ops = dry_backend.ops();
    Arena dry_arena = Arena::Dry();
    Exec dry = On(dry_backend, dry_arena);
    const Shape shape{ids.elements(), config_.gemma->width};
    hidden_ = dry_arena.Alloc(precision_, shape);
    Forward(dry);
    flops_ = static_cast<double>(dry_ops.cost().flops());
    KINORA_RETURN_IF_ERROR(Reserve(dry_arena.peak()));
    hidden_ = arena_->Alloc(precision_, shape);
    return absl::OkStatus();
  }

  std::optional<Gemma> gemma_;
  std::vector<int32_t> ids_;
  std::vector<int64_t> lengths_;
  Tensor hidden_;
};

}  // namespace

absl::StatusOr<InputFile> InputFile::Open(const std::string& path) {
  KINORA_ASSIGN_OR_RETURN(std::shared_ptr<const SafetensorsFile> file, SafetensorsFile::Open(path));
  InputFile inputs;
  for (const TensorInfo& info : file->tensors()) {
    if (info.dtype != DType::kF32 && info.dtype != DType::kI64) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": ", info.name, " is neither F32 nor I64"));
    }
    KINORA_ASSIGN_OR_RETURN(Buffer buffer, Buffer::Allocate(info.bytes));
    KINORA_RETURN_IF_ERROR(file->Read(info, 0, info.bytes, buffer.data()));
    const Tensor view = buffer.View(info.dtype, info.shape);
    inputs.tensors_[info.name] = {std::move(buffer), view};
  }
  return inputs;
}

const Tensor& InputFile::Get(const std::string& name) const {
  const auto found = tensors_.find(name);
  KINORA_CHECK(found != tensors_.end()) << "no input " << name;
  return found->second.second;
}

absl::StatusOr<std::unique_ptr<ModelPart>> LoadPart(const std::string& part, const PartOptions& options) {
  std::unique_ptr<Loaded> loaded;
  if (part == "transformer") loaded = std::make_unique<TransformerPart>();
  if (part == "video_decoder") loaded = std::make_unique<VideoDecoderPart>();
  if (part == "diffusion_decoder") loaded = std::make_unique<DiffusionDecoderPart>();
  if (part == "video_encoder") loaded = std::make_unique<VideoEncoderPart>();
  if (part == "upsampler") loaded = std::make_unique<UpsamplerPart>();
  if (part == "gemma") loaded = std::make_unique<GemmaPart>();
  if (loaded == nullptr) return absl::InvalidArgumentError(absl::StrCat("no part ", part));
  KINORA_RETURN_IF_ERROR(loaded->Open(options));
  return loaded;
}

absl::Status DryTransformer(const ModelConfig& config, const InputFile& inputs, DType precision, DryOps& ops,
                            absl::FunctionRef<void()> prepared) {
  const auto mesh = Mesh::Single();
  Arena arena = Arena::Dry();
  DryBackend backend;
  Exec exec{.backend = backend, .arena = arena, .host = arena, .mesh = *mesh, .dtype = precision, .ops = ops};
  const WeightLoader weights = WeightLoader::Dry(*mesh, backend, precision);
  KINORA_ASSIGN_OR_RETURN(auto transformer, Transformer::Load(weights.Under("transformer"), config.transformer));
  KINORA_ASSIGN_OR_RETURN(const ForwardPass pass, ForwardPass::Prepare(exec, *transformer, inputs));
  ops.ResetCost();
  prepared();
  pass.Run(exec);
  return absl::OkStatus();
}

}  // namespace kinora
