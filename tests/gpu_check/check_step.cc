// Parts "block" and "step": the transformer at the released shapes, with random weights.
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/pipeline/velocity_model.h"
#include "tests/gpu_check/parts.h"
#include "tests/gpu_check/synthetic_model.h"
#include "tests/gpu_check/workbench.h"
#include "tests/prediction/step_prediction.h"

namespace kinora {
namespace {

struct ClipShape {
  const char* name;
  int64_t frames, height, width, audio, prompt;  // latent cells, audio latents, rows of a prompt
  int64_t tokens() const { return frames * height * width; }
};
constexpr ClipShape kClips[] = {{"768x512x121", 16, 16, 24, 126, 1024}, {"1280x768x121", 16, 24, 40, 126, 1024}};
constexpr ClipShape kSmallClips[] = {{"tiny", 2, 3, 4, 9, 16}, {"tinier", 2, 2, 4, 9, 16}};

// Goals for a step of batch 2, in ms (docs/performance.md).
struct Target {
  const char* id;
  const char* family;
  int64_t tokens;
  double goal;
};
constexpr Target kTargets[] = {
    {"T1", "2.0", 6144, 620}, {"T1", "2.3", 6144, 620}, {"T3", "2.0", 15360, 1900}, {"T3", "2.3", 15360, 1900}};

PassList PassesOf(int batch) {
  if (batch == 1) return {Pass::kCond};
  if (batch == 2) return {Pass::kUncond, Pass::kCond};
  return {Pass::kUncond, Pass::kCond, Pass::kPerturbed, Pass::kIsolated};
}

VelocityInputs InputsOf(Workbench& bench, const TransformerConfig& config, const ClipShape& clip, int batch) {
  VelocityInputs inputs;
  inputs.of.video.positions.resize(3);
  for (int64_t i = 0; i < clip.tokens(); ++i) {
    const int64_t column = i % clip.width, row = i / clip.width % clip.height, frame = i / clip.width / clip.height;
    inputs.of.video.positions[0].push_back(static_cast<float>(frame) / 3.0f);
    inputs.of.video.positions[1].push_back(static_cast<float>(row) * 32.0f + 16.0f);
    inputs.of.video.positions[2].push_back(static_cast<float>(column) * 32.0f + 16.0f);
  }
  inputs.of.audio.positions.resize(1);
  for (int64_t i = 0; i < clip.audio; ++i) inputs.of.audio.positions[0].push_back(0.04f * static_cast<float>(i));
  inputs.of.video.sigmas = inputs.of.audio.sigmas = {0.9f};
  const int stg_block = static_cast<int>(std::min<int64_t>(29, config.layers - 1));
  inputs.of.video.perturbed_blocks = inputs.of.audio.perturbed_blocks = {stg_block};
  inputs.passes = PassesOf(batch);
  const auto context = [&] {
    const auto draw = [&](const ModalityConfig& m) {
      const int64_t width = config.caption_projection ? config.caption_channels : m.context_width;
      return bench.Random(DType::kBF16, {clip.prompt, width});
    };
    return TextContext{draw(config.video), draw(config.audio)};
  };
  inputs.cond = context();
  inputs.uncond = context();
  return inputs;
}

// One step of the denoising loop over both modalities, ready to run.
class Step {
 public:
  static absl::StatusOr<std::unique_ptr<Step>> Prepare(Exec& exec, Workbench& bench, const Transformer& transformer,
                                                       const ClipShape& clip, int batch) {
    std::unique_ptr<Step> step(new Step(exec));
    const TransformerConfig& config = transformer.config();
    const VelocityInputs inputs = InputsOf(bench, config, clip, batch);
    KINORA_ASSIGN_OR_RETURN(step->model_, VelocityModel::Prepare(exec, transformer, inputs));
    const VelocityModel& model = *step->model_;
    step->index_ = bench.Indices({1}, 1);
    step->sigmas_ = bench.Floats({0.9f, 0.89f});
    const Tensor weights = bench.Floats(
        WeightsFor({.cfg = 3, .stg = batch > 2 ? 1.0 : 0.0, .modality = batch > 2 ? 3.0 : 1.0, .rescale = 0.7},
                   batch == 1 ? PassList{Pass::kCond} : inputs.passes));
    const auto prepare = [&](int64_t rows, int64_t tokens, const ModalityConfig& m, Loop& loop) {
      loop.z = bench.Random(DType::kF32, {rows, m.in_channels});
      if (rows > tokens) exec.ops.Fill(0.0f, loop.z.Rows(tokens, rows));
      loop.tokens = tokens;
      loop.predicted = {.v = bench.Output(DType::kF32, {batch * tokens, m.out_channels}),
                        .sigma = step->sigmas_.Rows(0, 1),
                        .weights = weights,
                        .cond = CondIndex(inputs.passes),
                        .x0 = bench.Output(DType::kF32, {tokens, m.out_channels})};
    };
    prepare(model.rows().video, clip.tokens(), config.video, step->loops_.video);
    prepare(model.rows().audio, clip.audio, config.audio, step->loops_.audio);
    KINORA_RETURN_IF_ERROR(bench.status());
    return step;
  }

  // Velocities of both modalities after a run from the same latents, eager or from a graph.
  absl::StatusOr<std::vector<float>> VelocitiesOf(Workbench& bench, bool from_graph) {
    Stream& stream = exec_.ops.stream();
    for (Loop* loop : {&loops_.video, &loops_.audio}) {
      if (!loop->begin.defined()) loop->begin = bench.Random(DType::kF32, loop->z.shape());
      stream.Copy(loop->begin, loop->z);
    }
    if (from_graph) {
      KINORA_ASSIGN_OR_RETURN(const auto graph, stream.Capture([this] { Run(); }));
      graph->Replay();
      KINORA_RETURN_IF_ERROR(stream.Synchronize());
    } else {
      Run();
    }
    std::vector<float> velocities;
    for (const Loop* loop : {&loops_.video, &loops_.audio}) {
      KINORA_ASSIGN_OR_RETURN(const std::vector<float> v, bench.Read(loop->predicted.v));
      velocities.insert(velocities.end(), v.begin(), v.end());
    }
    return velocities;
  }

  void Run() {
    model_->SelectStep(exec_, index_);
    model_->Forward(exec_, {}, {loops_.video.z, loops_.audio.z}, {loops_.video.predicted.v, loops_.audio.predicted.v});
    for (const Loop* loop : {&loops_.video, &loops_.audio}) {
      exec_.ops.GuidedEulerStep(loop->predicted, sigmas_, loop->z.Rows(0, loop->tokens));
    }
  }

 private:
  struct Loop {
    int64_t tokens = 0;
    Tensor z, begin;  // `begin`: what a compared run starts from
    Prediction predicted;
  };
  explicit Step(Exec& exec) : exec_(exec) {}

  Exec& exec_;
  std::optional<VelocityModel> model_;
  Tensor index_, sigmas_;
  PerModality<Loop> loops_;
};

absl::StatusOr<std::unique_ptr<Transformer>> LoadFrom(const WeightLoader& loader, const TransformerConfig& config) {
  return Transformer::Load(loader.Under("transformer"), config);
}

struct Computed {
  double flops = 0, seconds = 0, best = 0, worst = 0;  // per step, at the likely, best and worst rates of an H100
  int64_t arena_bytes = 0, host_bytes = 0, weight_bytes = 0;
};

absl::StatusOr<Computed> Compute(const TransformerConfig& config, const ClipShape& clip, int batch) {
  LaunchBackend dry;
  Workbench bench(dry);
  Arena arena = Arena::Dry(), host = Arena::Dry();
  const auto mesh = Mesh::Single();
  Exec exec{.backend = dry, .arena = arena, .host = host, .mesh = *mesh, .dtype = DType::kBF16};
  KINORA_ASSIGN_OR_RETURN(const auto transformer, LoadFrom(WeightLoader::Dry(*mesh, dry, DType::kBF16), config));
  KINORA_ASSIGN_OR_RETURN(const auto step, Step::Prepare(exec, bench, *transformer, clip, batch));
  dry.Clear();
  step->Run();
  const StepPrediction likely = PredictStep(dry.launches(), kH100Rates[1]);
  return Computed{.flops = likely.flop,
                  .seconds = likely.total(),
                  .best = PredictStep(dry.launches(), kH100Rates[0]).total(),
                  .worst = PredictStep(dry.launches(), kH100Rates[2]).total(),
                  .arena_bytes = arena.peak(),
                  .host_bytes = host.peak(),
                  .weight_bytes = dry.ops().weight_bytes()};
}

// A transformer loaded on the device.
class LoadedModel {
 public:
  static absl::StatusOr<std::unique_ptr<LoadedModel>> Load(Backend& backend, const SyntheticWeights& weights,
                                                           const TransformerConfig& config) {
    std::unique_ptr<LoadedModel> model(new LoadedModel(backend));
    KINORA_ASSIGN_OR_RETURN(auto checkpoint, weights.CheckpointFor([&](const WeightLoader& loader) {
      return LoadFrom(loader, config).status();
    }));
    KINORA_ASSIGN_OR_RETURN(WeightLoader loader,
                            WeightLoader::Open(std::move(checkpoint), *model->mesh_, backend, DType::kBF16));
    KINORA_ASSIGN_OR_RETURN(model->transformer_, LoadFrom(loader, config));
    KINORA_RETURN_IF_ERROR(loader.Finish());
    return model;
  }

  struct Times {
    double eager = 0, graph = 0;
    bool equal = false;  // bit for bit, the velocities of both ways of running
  };
  static constexpr int kEagerRuns = 3;
  absl::StatusOr<Times> Time(const ClipShape& clip, int batch, int runs) {
    KINORA_ASSIGN_OR_RETURN(const Computed needs, Compute(transformer_->config(), clip, batch));
    KINORA_ASSIGN_OR_RETURN(Buffer memory, backend_.Allocate(needs.arena_bytes, "activations"));
    KINORA_ASSIGN_OR_RETURN(Buffer host_memory,
                            backend_.AllocateHost(std::max<int64_t>(64, needs.host_bytes), "the host's side"));
    Arena arena(std::move(memory)), host(std::move(host_memory));
    Exec exec{.backend = backend_, .arena = arena, .host = host, .mesh = *mesh_, .dtype = DType::kBF16};
    Workbench bench(backend_);
    KINORA_ASSIGN_OR_RETURN(const auto step, Step::Prepare(exec, bench, *transformer_, clip, batch));
    Stopwatch watch(backend_.ops());
    Times times;
    KINORA_ASSIGN_OR_RETURN(times.eager, watch.Median(std::min(runs, kEagerRuns), [&] { step->Run(); }));
    KINORA_ASSIGN_OR_RETURN(times.graph, watch.MedianOfGraph(runs, 1, [&] { step->Run(); }));
    KINORA_ASSIGN_OR_RETURN(const std::vector<float> eager, step->VelocitiesOf(bench, /*from_graph=*/false));
    KINORA_ASSIGN_OR_RETURN(const std::vector<float> graph, step->VelocitiesOf(bench, /*from_graph=*/true));
    times.equal = std::memcmp(eager.data(), graph.data(), eager.size() * sizeof(float)) == 0;
    return times;
  }

 private:
  explicit LoadedModel(Backend& backend) : backend_(backend) {}
  Backend& backend_;
  const std::unique_ptr<Mesh> mesh_ = Mesh::Single();
  std::unique_ptr<Transformer> transformer_;
};

struct Case {
  const ClipShape* clip;
  int batch;
};
std::vector<Case> CasesOf(const Settings& settings) {
  std::vector<Case> cases;
  for (const int batch : {2, 1, 4}) {  // the batch of the targets first
    for (int i = 0; i < 2; ++i) cases.push_back({settings.small ? &kSmallClips[i] : &kClips[i], batch});
  }
  return cases;
}

// State that both parts need. OpenBench returns nullopt after it has reported an error.
struct Bench {
  std::unique_ptr<Backend> backend;
  std::optional<SyntheticWeights> weights;
};
std::optional<Bench> OpenBench(const Settings& settings, Report& report) {
  auto backend = OpenBackend("cuda", {.threads = settings.threads});
  if (!backend.ok()) {
    report.NotAvailable(std::string(backend.status().message()));
    return std::nullopt;
  }
  auto weights = SyntheticWeights::Make(settings);
  if (!weights.ok()) {
    report.Fail("drawn weights", weights.status());
    return std::nullopt;
  }
  return Bench{*std::move(backend), *std::move(weights)};
}

std::string NameOf(const std::string& family, const Case& c) {
  return Cat(family, ", ", c.clip->tokens(), " tokens, batch ", c.batch);
}

void CheckBlockOf(const std::string& family, const Settings& settings, Bench& bench, Report& report) {
  auto config = SyntheticConfig(settings, family);
  if (!config.ok()) return report.Fail(family, config.status());
  const int64_t deep = settings.small ? 2 : 5;
  std::unique_ptr<LoadedModel> models[2];
  for (int i = 0; i < 2; ++i) {
    config->transformer.layers = i == 0 ? 1 : deep;
    auto model = LoadedModel::Load(*bench.backend, *bench.weights, config->transformer);
    if (!model.ok()) return report.Fail(family, model.status());
    models[i] = *std::move(model);
  }
  for (const Case& c : CasesOf(settings)) {
    if (report.TimeIsUp(NameOf(family, c))) continue;
    const auto one = models[0]->Time(*c.clip, c.batch, settings.runs);
    const auto many = models[1]->Time(*c.clip, c.batch, settings.runs);
    TransformerConfig shallow = config->transformer;
    shallow.layers = 1;
    const auto of_one = Compute(shallow, *c.clip, c.batch), of_many = Compute(config->transformer, *c.clip, c.batch);
    if (!one.ok() || !many.ok() || !of_one.ok() || !of_many.ok()) {
      report.Fail(NameOf(family, c), !one.ok() ? one.status() : !many.ok() ? many.status() : of_many.status());
      continue;
    }
    const auto blocks = static_cast<double>(deep - 1);
    const double eager = (many->eager - one->eager) / blocks, graph = (many->graph - one->graph) / blocks;
    const double flops = (of_many->flops - of_one->flops) / blocks;
    report.Add("one block", {{"model", family},
                             {"tokens", c.clip->tokens()},
                             {"batch", c.batch},
                             {"eager ms", eager * 1e3},
                             {"graph ms", graph * 1e3},
                             {"computed ms", (of_many->seconds - of_one->seconds) / blocks * 1e3},
                             {"TFLOP", flops / 1e12},
                             {"TFLOP/s", flops / graph / 1e12}});
  }
}

void AddStep(const std::string& family, const Case& c, int64_t layers, const LoadedModel::Times& times,
             const Computed& computed, Report& report) {
  // The graph has the sound beside the video, the eager step has it after.
  if (!times.equal) report.Fail(Cat(NameOf(family, c), ": the step from a graph has other bits than the eager one"));
  const Target* target = nullptr;
  for (const Target& t : kTargets) {
    if (t.family == family && t.tokens == c.clip->tokens() && c.batch == 2 && layers == 48) target = &t;
  }
  report.Add("one step", {{"model", family},
                          {"tokens", c.clip->tokens()},
                          {"batch", c.batch},
                          {"blocks", layers},
                          {"eager ms", times.eager * 1e3},
                          {"graph ms", times.graph * 1e3},
                          {"same bits", times.equal},
                          {"computed ms", computed.seconds * 1e3},
                          {"best ms", computed.best * 1e3},
                          {"worst ms", computed.worst * 1e3},
                          {"TFLOP/s", computed.flops / times.graph / 1e12},
                          {"target", target != nullptr ? Json(target->id) : Json()},
                          {"goal ms", target != nullptr ? Json(target->goal) : Json()}});
}

// Returns the number of blocks that fit on the device together with the largest activations.
absl::StatusOr<int64_t> LayersThatFit(const Settings& settings, TransformerConfig config, const Bench& bench) {
  const int64_t room = bench.backend->usable_memory().bytes / 20 * 19;
  const Case largest = CasesOf(settings).back();
  const int64_t all = config.layers;
  KINORA_ASSIGN_OR_RETURN(const Computed whole, Compute(config, *largest.clip, largest.batch));
  config.layers = 1;
  KINORA_ASSIGN_OR_RETURN(const Computed one, Compute(config, *largest.clip, largest.batch));
  const auto bytes = [](const Computed& c) { return c.weight_bytes + c.arena_bytes; };
  if (all == 1 || bytes(whole) <= room) return all;
  const int64_t each = (bytes(whole) - bytes(one)) / (all - 1);
  return std::clamp<int64_t>(1 + (room - bytes(one)) / each, 1, all);
}

// `reserve_seconds` is the time to leave for later work.
void CheckStepOf(const std::string& family, double reserve_seconds, const Settings& settings, Bench& bench,
                 Report& report) {
  auto config = SyntheticConfig(settings, family);
  if (!config.ok()) return report.Fail(family, config.status());
  const auto layers = LayersThatFit(settings, config->transformer, bench);
  if (!layers.ok()) return report.Fail(family, layers.status());
  if (*layers < config->transformer.layers) {
    report.Note(Cat(family, ": ", *layers, " of ", config->transformer.layers, " blocks fit the memory"));
  }
  config->transformer.layers = *layers;
  const auto model = LoadedModel::Load(*bench.backend, *bench.weights, config->transformer);
  if (!model.ok()) return report.Fail(family, model.status());
  for (const Case& c : CasesOf(settings)) {
    const auto computed = Compute(config->transformer, *c.clip, c.batch);
    if (!computed.ok()) return report.Fail(NameOf(family, c), computed.status());
    const double expected = 3.0 + 1.4 * computed->seconds * (settings.runs + LoadedModel::kEagerRuns + 3);
    if (!settings.simulated && expected > report.SecondsLeft() - reserve_seconds) {
      report.Note(Cat("left out for want of time: ", NameOf(family, c)));
      continue;
    }
    const auto times = (*model)->Time(*c.clip, c.batch, settings.runs);
    if (!times.ok()) {
      report.Fail(NameOf(family, c), times.status());
      continue;
    }
    AddStep(family, c, *layers, *times, *computed, report);
  }
}

}  // namespace

void CheckBlock(const Settings& settings, Report& report) {
  std::optional<Bench> bench = OpenBench(settings, report);
  if (!bench) return;
  for (const char* family : {"2.3", "2.0"}) CheckBlockOf(family, settings, *bench, report);
  report.Note("a block: the difference between steps of models with more and with one block, by their number");
  report.Note("computed: 780 TFLOP/s of products, 650 of attention, 3.0 TB/s of the other ops' operands");
}

void CheckStep(const Settings& settings, Report& report) {
  std::optional<Bench> bench = OpenBench(settings, report);
  if (!bench) return;
  CheckStepOf("2.3", 75, settings, *bench, report);
  CheckStepOf("2.0", 2, settings, *bench, report);
  report.Note(
      "batch 4: the default guidance's passes; drawn weights, bf16; computed as for blocks; graph: medians, eager: "
      "medians of three");
}

}  // namespace kinora
