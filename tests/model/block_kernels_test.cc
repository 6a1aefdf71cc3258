// The number of kernels per transformer block, from the captured graph of a step: bfloat16, the default guidance's four
// passes and the released head sizes. On the simulated device a library call is one kernel.
#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/config/config_reader.h"
#include "engine/config/released_models.h"
#include "engine/model/av_block.h"
#include "engine/ops/cuda/cuda_stream.h"
#include "engine/parallel/dry_communicator.h"
#include "tests/prediction/launch_list.h"
#include "tests/simt/control.h"
#include "tests/simt/library.h"
#include "tests/testing/drawn_checkpoint.h"
#include "tests/testing/model_rig.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

// Enough video tokens that no unused pass attends (av_block.cc).
constexpr int64_t kVideoTokens = 520, kAudioTokens = 16, kPromptRows = 24;

// The functions of this program by offset. Kernels are local to their files, so dladdr cannot name them.
std::map<uint64_t, std::string> ReadFunctions() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const std::string program((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(program.data());
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(program.data() + header->e_shoff);
  std::map<uint64_t, std::string> functions;
  for (int i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const auto* symbols = reinterpret_cast<const Elf64_Sym*>(program.data() + sections[i].sh_offset);
    const char* names = program.data() + sections[sections[i].sh_link].sh_offset;
    for (uint64_t s = 0; s < sections[i].sh_size / sizeof(Elf64_Sym); ++s) {
      if (ELF64_ST_TYPE(symbols[s].st_info) == STT_FUNC) functions[symbols[s].st_value] = names + symbols[s].st_name;
    }
  }
  return functions;
}

// Returns a kernel's signature, a library call's name, or the kind of another node.
std::string NameOf(cudaGraphNode_t node) {
  static const std::map<uint64_t, std::string> functions = ReadFunctions();
  if (const char* library = simt::LibraryCall(node)) return library;
  cudaKernelNodeParams params;
  if (cudaGraphKernelNodeGetParams(node, &params) != cudaSuccess) return "a copy or fill";
  Dl_info info;
  if (dladdr(params.func, &info) == 0) return "a kernel of no program";
  const auto at =
      functions.find(reinterpret_cast<uintptr_t>(params.func) - reinterpret_cast<uintptr_t>(info.dli_fbase));
  if (at == functions.end()) return "a kernel without a name";
  int status = 0;
  char* const whole = abi::__cxa_demangle(at->second.c_str(), nullptr, nullptr, &status);
  std::string name = status == 0 ? whole : at->second;
  std::free(whole);
  return name;
}

Passes FourPasses(bool perturbed) {
  Passes passes{.count = 4, .contexts = 2, .context = {0, 1, 1, 1}, .perturbed = 2, .isolated = 3};
  if (perturbed) passes.perturbed_blocks = {{0}, {0}};
  return passes;
}

// Returns a modality's inputs, each tensor made by `make`, on one of `ranks` that share the tokens.
BlockInputs InputsOf(const TransformerConfig& config, const ModalityConfig& modality, int64_t tokens,
                     const std::function<Tensor(DType, const Shape&)>& make, int ranks = 1, int tensor_ranks = 1) {
  const int64_t rows = tokens / ranks;
  const auto rope = [&](int64_t width) {
    const Shape shape{rows, width / 2 / tensor_ranks};
    return Rope{make(DType::kF32, shape), make(DType::kF32, shape)};
  };
  const int64_t width = modality.width();
  BlockInputs in{.rows = rows, .valid_rows = rows, .tokens = tokens, .split = &modality == &config.video};
  in.rope = rope(width);
  in.cross_rope = rope(config.audio.width());
  in.context = make(DType::kBF16, {2 * kPromptRows, modality.context_width});
  in.tables = {.block = make(DType::kF32, {1, config.modulation_rows(), width}),
               .prompt = make(DType::kF32, {1, 2, modality.context_width}),
               .cross = make(DType::kF32, {1, 4, width}),
               .cross_gate = make(DType::kF32, {1, 1, width})};
  return in;
}

// The kind of launch, as LaunchOps names it.
std::string KindOf(const std::string& name) {
  const std::pair<const char*, const char*> kinds[] = {{"cublasLtMatmul", "product"}, {"cudnn", "attention"},
                                                       {"RowNorm", "row_norm"},       {"NormRope", "qk_norm_rope"},
                                                       {"Attend", "split_attention"}, {"Merge", "merge_splits"},
                                                       {"CopyRows", "copy"},          {"Elementwise", "elementwise"},
                                                       {"a copy or fill", "copy"},    {"JoinHeads", "join_heads"}};
  for (const auto& [part, kind] : kinds) {
    if (name.find(part) != std::string::npos) return kind;
  }
  return name;
}

// Returns the launches that LaunchOps lists for a block with the sizes of BlockRig.
std::vector<Launch> Listed(const TransformerConfig& config, const Passes& passes, const Mesh& mesh) {
  LaunchBackend backend;
  Arena arena = Arena::Dry(), host = Arena::Dry();
  Exec exec{.backend = backend, .arena = arena, .host = host, .mesh = mesh, .dtype = DType::kBF16};
  const WeightLoader weights = WeightLoader::Dry(mesh, backend, DType::kBF16);
  const AvBlock block = *AvBlock::Load(weights.Under("transformer").Under("transformer_blocks.0"), config, 0);
  const int tensor_ranks = mesh.tensor().size();
  const auto shaped = [](DType dtype, const Shape& shape) { return Tensor(dtype, shape, nullptr); };
  PerModality<BlockInputs> in = {
      InputsOf(config, config.video, kVideoTokens, shaped, mesh.tokens().size(), tensor_ranks),
      InputsOf(config, config.audio, kAudioTokens, shaped, 1, tensor_ranks)};
  if (!config.cross_attention_adaln) block.FillPromptCaches(exec, in);
  const auto state = [&](const BlockInputs& inputs, const ModalityConfig& modality) {
    const Tensor x = shaped(DType::kBF16, {4 * inputs.rows, modality.width()});
    return ModalityState{inputs, x, x};
  };
  backend.Clear();
  block.Forward(exec, passes, {}, &block, state(in.video, config.video), state(in.audio, config.audio));
  return backend.launches();
}

// How many there are of each kind.
std::map<std::string, int> ListedKinds(const TransformerConfig& config, const Passes& passes, const Mesh& mesh) {
  std::map<std::string, int> kinds;
  for (const Launch& launch : Listed(config, passes, mesh)) ++kinds[std::string(launch.kernel)];
  return kinds;
}

// A block with few tokens; everything but the sizes is as in a step of the denoising loop.
class BlockRig : public ModelRig {
 public:
  // mesh: null: one rank.
  explicit BlockRig(const char* version, int64_t video_tokens = kVideoTokens, const Mesh* mesh = nullptr)
      : ModelRig(Cuda(), DType::kBF16, /*taps=*/nullptr, mesh),
        golden_(absl::StrCat("released_heads_", version)),
        drawn_(golden_) {
    const auto checkpoint = *Checkpoint::Open({.paths = {drawn_.path()}});
    config_ = ReadModelConfig(*checkpoint)->transformer;
    WeightLoader weights = Open({.paths = {drawn_.path()}}).Under("transformer").Under("transformer_blocks.0");
    block_ = *AvBlock::Load(weights, config_, 0);
    const auto filled = [this](DType dtype, const Shape& shape) { return Filled(dtype, shape); };
    in_ = {InputsOf(config_, config_.video, video_tokens, filled, exec.mesh.tokens().size()),
           InputsOf(config_, config_.audio, kAudioTokens, filled)};
    if (!config_.cross_attention_adaln) block_.FillPromptCaches(exec, in_);
  }

  const TransformerConfig& config() const { return config_; }

  // Returns the names of all nodes that one block enqueues. `perturbed` selects a block that STG perturbs.
  std::vector<std::string> Kernels(bool perturbed) {
    const Passes passes = FourPasses(perturbed);
    const PerModality<ModalityState> states = States();
    const auto forward = [&] { block_.Forward(exec, passes, {}, &block_, states.video, states.audio); };
    forward();  // one-time choices happen here
    EXPECT_TRUE(ops().stream().Synchronize().ok());
    cudaStream_t const handle = static_cast<CudaStream&>(ops().stream()).handle();
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamBeginCapture(handle, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    forward();
    EXPECT_EQ(cudaStreamEndCapture(handle, &graph), cudaSuccess);
    size_t count = 0;
    EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &count), cudaSuccess);
    std::vector<cudaGraphNode_t> nodes(count);
    EXPECT_EQ(cudaGraphGetNodes(graph, nodes.data(), &count), cudaSuccess);
    std::vector<std::string> names;
    names.reserve(count);
    for (cudaGraphNode_t node : nodes) names.push_back(NameOf(node));
    cudaGraphDestroy(graph);
    EXPECT_TRUE(ops().stream().Synchronize().ok());
    return names;
  }

  // The same, counted by kind.
  std::map<std::string, int> Kinds(bool perturbed) {
    std::map<std::string, int> kinds;
    for (const std::string& name : Kernels(perturbed)) ++kinds[KindOf(name)];
    return kinds;
  }

  // Runs the block on fixed inputs and returns its outputs and number of kernels. Uses a graph whose branches run in an
  // order drawn from `seed`, or no graph if it is 0.
  struct Result {
    std::vector<float> video, audio;
    uint64_t kernels = 0;
    bool operator==(const Result&) const = default;
  };
  Result Run(uint64_t seed) {
    const Passes passes = FourPasses(/*perturbed=*/true);
    const ArenaScope scope(arena);
    const PerModality<ModalityState> states = States();
    const auto forward = [&] { block_.Forward(exec, passes, {}, &block_, states.video, states.audio); };
    EXPECT_TRUE(ops().stream().Synchronize().ok());
    simt::Seed(seed);
    std::unique_ptr<Graph> graph;
    if (seed > 0) graph = *ops().stream().Capture(forward);
    const uint64_t before = simt::Counted().kernels;
    if (seed > 0) graph->Replay();
    if (seed == 0) forward();
    EXPECT_TRUE(ops().stream().Synchronize().ok());
    const uint64_t kernels = simt::Counted().kernels - before;
    return {Floats(states.video.x), Floats(states.audio.x), kernels};
  }

 private:
  PerModality<ModalityState> States() {
    const auto state = [&](const BlockInputs& in, const ModalityConfig& modality) {
      const Shape shape{4 * in.rows, modality.width()};
      ModalityState s{in, arena.Alloc(exec.dtype, shape), arena.Alloc(exec.dtype, shape)};
      std::vector<float> values(shape.elements());
      for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(0.37f * static_cast<float>(i % 9973));
      ops().stream().Copy(Upload(values, shape), s.x);
      ops().stream().Copy(s.x, s.normed);
      return s;
    };
    return {state(in_.video, config_.video), state(in_.audio, config_.audio)};
  }
  Tensor Filled(DType dtype, const Shape& shape) {
    Tensor t = arena.Alloc(dtype, shape);
    ops().Fill(0.25f, t);
    return t;
  }
  Golden golden_;
  const DrawnCheckpoint drawn_;
  TransformerConfig config_;
  AvBlock block_;
  PerModality<BlockInputs> in_;
};

struct Limit {
  const char* version;
  const char* released;
  size_t kernels;
};
class BlockKernels : public testing::TestWithParam<Limit> {};

TEST_P(BlockKernels, AreFewWithTheFourPassesOfTheDefaultGuidance) {
  BlockRig rig(GetParam().version);
  const std::vector<std::string> plain = rig.Kernels(false), perturbed = rig.Kernels(true);
  RecordProperty("kernels", static_cast<int>(plain.size()));
  RecordProperty("perturbed", static_cast<int>(perturbed.size()));
  EXPECT_GT(plain.size(), size_t{30}) << absl::StrJoin(plain, "\n");  // a complete block
  EXPECT_LE(plain.size(), GetParam().kernels) << absl::StrJoin(plain, "\n");
  EXPECT_LE(perturbed.size(), GetParam().kernels) << absl::StrJoin(perturbed, "\n");
}

// So that times predicted from the list (tests/prediction) are those of the launches that are made.
TEST_P(BlockKernels, AreThoseThatTheListOfLaunchesHas) {
  BlockRig rig(GetParam().version);
  for (const bool perturbed : {false, true}) {
    EXPECT_EQ(ListedKinds(rig.config(), FourPasses(perturbed), rig.exec.mesh), rig.Kinds(perturbed))
        << "perturbed: " << perturbed;
  }
}

// The kernels that rotate queries and keys write what ranks exchange, and those that gate heads read it. Without gates
// a kernel joins the heads; the perturbed pass's values are copied before the exchange takes their place. The ranks'
// collectives are not among the kernels: the other ranks do not exist.
std::map<std::string, int> WithTokenRanks(std::map<std::string, int> of_one, bool gated, bool perturbed) {
  of_one["join_heads"] = 1;
  if (gated) --of_one["elementwise"];
  if (gated && perturbed) ++of_one["copy"];
  return of_one;
}

TEST_P(BlockKernels, OfTokenRanksPackAndUnpackNothing) {
  BlockRig one(GetParam().version);
  const bool gated = one.config().gated_attention;
  const std::unique_ptr<Mesh> mesh = *MakeDryMesh({.tokens = 2});
  BlockRig rig(GetParam().version, kVideoTokens, mesh.get());
  for (const bool perturbed : {false, true}) {
    const std::map<std::string, int> expected = WithTokenRanks(one.Kinds(perturbed), gated, perturbed);
    EXPECT_EQ(rig.Kinds(perturbed), expected) << "perturbed: " << perturbed;
    EXPECT_EQ(ListedKinds(rig.config(), FourPasses(perturbed), *mesh), expected) << "perturbed: " << perturbed;
  }
}

TEST_P(BlockKernels, OfMoreTokenRanksAreThoseOfTwo) {
  const TransformerConfig config = ReleasedModelConfig(GetParam().released)->transformer;
  for (const bool perturbed : {false, true}) {
    const Passes passes = FourPasses(perturbed);
    const std::map<std::string, int> one = ListedKinds(config, passes, *Mesh::Single());
    for (const int ranks : {2, 4, 8}) {
      EXPECT_EQ(ListedKinds(config, passes, **MakeDryMesh({.tokens = ranks})),
                WithTokenRanks(one, config.gated_attention, perturbed))
          << ranks << " ranks, perturbed: " << perturbed;
    }
  }
}

// Tensor ranks sum both modalities. With token ranks the sound gathers what the video's keys gave it: then it stays on
// the ranks' stream, and the video takes the branch.
TEST_P(BlockKernels, OfRanksRunBesideEachOtherUnlessBothModalitiesHaveCollectives) {
  const TransformerConfig config = ReleasedModelConfig(GetParam().released)->transformer;
  const auto on_branch = [&](const MeshShape& shape, std::string_view kernel) {
    int launches = 0;
    for (const Launch& launch : Listed(config, FourPasses(false), **MakeDryMesh(shape))) {
      if (launch.on_branch && (kernel.empty() || launch.kernel == kernel)) ++launches;
    }
    return launches;
  };
  EXPECT_GT(on_branch({}, ""), 15);
  EXPECT_EQ(on_branch({.guidance = 2}, ""), on_branch({}, ""));
  EXPECT_GT(on_branch({.guidance = 2, .tokens = 4}, ""), 15);
  EXPECT_EQ(on_branch({}, "split_attention"), 1);
  EXPECT_EQ(on_branch({.tokens = 2}, "split_attention"), 0);
  EXPECT_EQ(on_branch({.tensor = 2}, ""), 0);
  EXPECT_EQ(on_branch({.tokens = 2, .tensor = 2}, ""), 0);
}

TEST_P(BlockKernels, WithTheSoundBesideThePictureTheBitsAndTheirNumberAreTheSame) {
  BlockRig rig(GetParam().version, /*video_tokens=*/24);
  rig.Run(0);  // one-time choices happen here
  const BlockRig::Result alone = rig.Run(0);
  EXPECT_GT(alone.kernels, 30u);
  for (uint64_t seed = 1; seed <= 4; ++seed) EXPECT_TRUE(rig.Run(seed) == alone) << seed;
}

INSTANTIATE_TEST_SUITE_P(Of, BlockKernels,
                         testing::Values(Limit{"2_0", "ltx-2-19b", 45}, Limit{"2_3", "ltx-2.3-22b", 57}),
                         [](const auto& info) { return std::string(info.param.version); });

}  // namespace
}  // namespace kinora
