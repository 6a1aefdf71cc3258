// Builds the real cuDNN's plans from a device description, without a device, and tests that it supports the same shapes
// as the simulated cuDNN and chooses kernels for that device. Nothing runs.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/substitute.h"
#include "tests/simt/cudnn/refusals.h"
#ifdef KINORA_CUDNN_LIBRARY
#include "engine/ops/cuda/cudnn_frontend.h"
#include "engine/ops/cuda/cudnn_plans.h"
#endif

namespace kinora {
namespace {

// [batch, rows, heads · width], consecutive rows `row` elements apart.
HeadStrides Packed(int64_t rows, int64_t width, int64_t row) {
  return {.batch = rows * row, .head = width, .row = row};
}

CudnnAttention Shape(int64_t batch, int64_t heads, int64_t kv_heads, int64_t queries, int64_t keys, int64_t width) {
  return {.batch = batch,
          .heads = heads,
          .kv_heads = kv_heads,
          .queries = queries,
          .keys = keys,
          .head_width = width,
          .q = Packed(queries, width, heads * width),
          .k = Packed(keys, width, kv_heads * width),
          .v = Packed(keys, width, kv_heads * width),
          .out = Packed(queries, width, heads * width),
          .scale = 0.125f};
}

template <typename Shape>
struct Case {
  std::string name;
  Shape shape;
};

std::vector<Case<CudnnAttention>> Attentions() {
  std::vector<Case<CudnnAttention>> cases = {{"VideoSelf", Shape(2, 32, 32, 6144, 6144, 128)},
                                             {"Prompt", Shape(4, 32, 32, 6144, 1024, 128)},
                                             {"AudioSelf", Shape(2, 32, 32, 126, 126, 64)},
                                             {"AudioToVideo", Shape(2, 32, 32, 6144, 126, 64)},
                                             {"Width8", Shape(1, 2, 2, 64, 64, 8)},
                                             {"Width40", Shape(1, 4, 4, 64, 64, 40)},
                                             {"Width36", Shape(1, 4, 4, 64, 64, 36)},
                                             {"Width256", Shape(1, 4, 4, 256, 256, 256)},
                                             {"OneQueryOneKey", Shape(1, 4, 4, 1, 1, 64)},
                                             {"OneQuery", Shape(1, 4, 4, 1, 77, 64)},
                                             {"OneKey", Shape(1, 4, 4, 128, 1, 64)},
                                             {"OddKeys", Shape(1, 4, 4, 37, 531, 64)},
                                             {"SharedKeyHeads", Shape(1, 16, 8, 1024, 1024, 256)},
                                             {"KeyHeadsThatDoNotDivide", Shape(1, 4, 3, 128, 128, 64)}};
  const auto add = [&](const char* name, CudnnAttention shape, const auto& change) {
    change(shape);
    cases.push_back({name, shape});
  };
  add("PackedQkv", Shape(2, 4, 4, 128, 128, 64),
      [](CudnnAttention& a) { a.q = a.k = a.v = Packed(128, 64, 3 * 4 * 64); });
  add("SequencesFromTheSecondOn", Shape(2, 4, 4, 128, 100, 64), [](CudnnAttention& a) { a.k.batch = a.v.batch *= 2; });
  add("KeysOfAllBatches", Shape(2, 4, 4, 128, 128, 64), [](CudnnAttention& a) { a.k.batch = a.v.batch = 0; });
  add("Causal", Shape(1, 16, 8, 2048, 2048, 256), [](CudnnAttention& a) { a.causal = true; });
  add("CausalOddQueries", Shape(1, 16, 8, 2049, 2049, 256), [](CudnnAttention& a) { a.causal = true; });
  add("CausalMoreQueries", Shape(1, 4, 4, 256, 128, 64), [](CudnnAttention& a) { a.causal = true; });
  add("CausalWindow", Shape(1, 16, 8, 2048, 2048, 256), [](CudnnAttention& a) { a.causal = true, a.window = 1024; });
  add("CausalWindowMoreQueries", Shape(1, 4, 4, 256, 200, 64),
      [](CudnnAttention& a) { a.causal = true, a.window = 100; });
  add("CausalWindowMoreOddQueries", Shape(1, 4, 4, 250, 200, 64),
      [](CudnnAttention& a) { a.causal = true, a.window = 100; });
  add("Bias", Shape(2, 4, 4, 256, 256, 64), [](CudnnAttention& a) { a.bias = true, a.bias_stride = 256; });
  add("BiasOddKeys", Shape(2, 4, 4, 250, 301, 64), [](CudnnAttention& a) { a.bias = true, a.bias_stride = 301; });
  add("CausalBias", Shape(1, 4, 4, 256, 256, 64),
      [](CudnnAttention& a) { a.causal = a.bias = true, a.bias_stride = 256; });
  add("WindowBias", Shape(1, 4, 4, 256, 256, 64),
      [](CudnnAttention& a) { a.causal = a.bias = true, a.window = 100, a.bias_stride = 256; });
  return cases;
}

// A 3×3×3 convolution of the video decoders: `frames` frames of x, no padding in time.
CudnnConvolution Video(int64_t frames, int64_t rows, int64_t columns, int64_t in, int64_t out) {
  const ConvAxis side{.kernel = 3, .before = 1, .after = 1};
  return {.frames = frames,
          .rows = rows,
          .columns = columns,
          .in_channels = in,
          .out_channels = out,
          .x_stride = in,
          .filter_stride = 27 * in,
          .out_stride = out,
          .time = {.kernel = 3},
          .height = side,
          .width = side,
          .bias = true};
}

std::vector<Case<CudnnConvolution>> Convolutions() {
  std::vector<Case<CudnnConvolution>> cases = {
      {"FirstBlock", Video(16, 16, 24, 1024, 1024)}, {"Latent", Video(16, 16, 24, 128, 1024)},
      {"Upsample", Video(16, 16, 24, 1024, 4096)},   {"Middle", Video(16, 32, 48, 512, 512)},
      {"LastBlock", Video(41, 128, 192, 128, 128)},  {"OnePixel", Video(3, 1, 1, 8, 8)},
      {"Channels12", Video(4, 8, 8, 12, 16)},        {"Channels20Out", Video(4, 8, 8, 16, 20)},
      {"Channels6", Video(4, 8, 8, 6, 16)},          {"Channels7", Video(4, 8, 8, 7, 9)}};
  const auto add = [&](const char* name, CudnnConvolution shape, const auto& change) {
    change(shape);
    cases.push_back({name, shape});
  };
  const CudnnConvolution video = Video(5, 16, 24, 64, 128);
  add("Added", video, [](CudnnConvolution& c) { c.accumulate = true; });
  add("Silu", video, [](CudnnConvolution& c) { c.activation = Activation::kSilu; });
  add("SiluAdded", video, [](CudnnConvolution& c) { c.activation = Activation::kSilu, c.accumulate = true; });
  add("WithoutBias", video, [](CudnnConvolution& c) { c.bias = false; });
  add("WithoutBiasAdded", video, [](CudnnConvolution& c) { c.bias = false, c.accumulate = true; });
  add("PaddedTime", video, [](CudnnConvolution& c) { c.time.before = 2; });
  add("Strided", video, [](CudnnConvolution& c) { c.height.stride = c.width.stride = 2; });
  add("Image", video, [](CudnnConvolution& c) { c.frames = c.time.kernel = 1, c.filter_stride = 9 * 64; });
  add("DilatedLine", video, [](CudnnConvolution& c) {
    c.frames = c.time.kernel = c.width.kernel = 1, c.columns = 1, c.filter_stride = 3 * 64;
    c.width.before = c.width.after = 0;
    c.height.dilation = c.height.before = c.height.after = 5;
  });
  add("LastConvolution", Video(41, 128, 192, 128, 48), [](CudnnConvolution& c) { c.out_dtype = DType::kF32; });
  add("FloatResult", video, [](CudnnConvolution& c) { c.out_dtype = DType::kF32; });
  add("FloatResultSiluAdded", video,
      [](CudnnConvolution& c) { c.out_dtype = DType::kF32, c.activation = Activation::kSilu, c.accumulate = true; });
  add("FloatResultSilu", video,
      [](CudnnConvolution& c) { c.out_dtype = DType::kF32, c.activation = Activation::kSilu; });
  add("FloatResultAdded", video, [](CudnnConvolution& c) { c.out_dtype = DType::kF32, c.accumulate = true; });
  add("FloatResultWithoutBias", video, [](CudnnConvolution& c) { c.out_dtype = DType::kF32, c.bias = false; });
  add("FloatResultWithoutBiasAdded", video,
      [](CudnnConvolution& c) { c.out_dtype = DType::kF32, c.bias = false, c.accumulate = true; });
  add("FloatResultOfAnImage", video,
      [](CudnnConvolution& c) { c.out_dtype = DType::kF32, c.frames = c.time.kernel = 1, c.filter_stride = 9 * 64; });
  add("Float", video, [](CudnnConvolution& c) { c.dtype = DType::kF32; });
  add("PixelsApart", video, [](CudnnConvolution& c) { c.x_stride = 72; });
  add("ResultsApart", video, [](CudnnConvolution& c) { c.out_stride = 136; });
  return cases;
}

#ifdef KINORA_CUDNN_LIBRARY

// An H100 as cuDNN device properties, without its compute capability.
constexpr char kDevice[] =
    R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)"
    R"("multiProcessorCount":132,"warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,)"
    R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,)"
    R"("maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"smClockRateKHz":1980000,)"
    R"("memClockRateKHz":2619000,"l2CacheSize":52428800,"deviceName":"NVIDIA H100 80GB HBM3","cudaDeviceId":0,)"
    R"("deviceVer":$0,"driverVer":13000,"totalGlobalMem":85029158912})";

// The library's plans for a device of this version, and the kernels that they load. cuDNN loads the kernels that it
// compiles while it builds a plan; those that it contains only show as their engine.
class Library {
 public:
  explicit Library(int version) : version_(version) {
    driver_ = dlopen(KINORA_FAKE_DRIVER, RTLD_NOW | RTLD_GLOBAL);  // before cuDNN opens it by name
    EXPECT_NE(driver_, nullptr) << dlerror();
    EXPECT_NE(dlopen(KINORA_NVRTC_LIBRARY, RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
    auto cudnn =
        OpenCudnnFrontend({.library = KINORA_CUDNN_LIBRARY, .device_json = absl::Substitute(kDevice, version)});
    EXPECT_TRUE(cudnn.ok()) << cudnn.status();
    if (cudnn.ok()) cudnn_ = *std::move(cudnn);
  }

  struct Plan {
    absl::Status status;
    std::string engine, kernels;
  };
  // Returns the bytes that a plan took on the host's heap and those of the images that it loaded, or (0, 0) if it was
  // refused. The plan is added to `plans`.
  template <typename Shape>
  std::pair<int64_t, int64_t> BytesOf(const Shape& shape, std::vector<std::unique_ptr<CudnnPlan>>& plans) const {
    const auto used = [] {
      const struct mallinfo2 heap = mallinfo2();
      return static_cast<int64_t>(heap.uordblks + heap.hblkhd);
    };
    const auto loaded = reinterpret_cast<size_t (*)()>(dlsym(driver_, "LoadedBytes"));
    loaded();
    const int64_t before = used();
    absl::StatusOr<std::unique_ptr<CudnnPlan>> plan = cudnn_->Build(shape);
    EXPECT_TRUE(plan.ok()) << plan.status();
    if (!plan.ok()) return {0, 0};
    plans.push_back(*std::move(plan));
    return {used() - before, static_cast<int64_t>(loaded())};
  }

  template <typename Shape>
  Plan Build(const Shape& shape) const {
    if (cudnn_ == nullptr || driver_ == nullptr) return {.status = absl::InternalError("no library")};
    const auto looked_up = reinterpret_cast<const char* (*)()>(dlsym(driver_, "LookedUpKernels"));
    looked_up();
    const auto plan = cudnn_->Build(shape);
    return {plan.status(), plan.ok() ? (*plan)->engine() : "", looked_up()};
  }
  std::unique_ptr<Cudnn> Release() { return std::move(cudnn_); }
  int version() const { return version_; }

 private:
  const int version_;
  void* driver_ = nullptr;
  std::unique_ptr<Cudnn> cudnn_;
};

// "eng9" of "eng9_k24=7".
std::string Number(const std::string& engine) { return engine.substr(0, engine.find('_')); }

// Whether a plan has Hopper kernels: their name says so, or they run in clusters of blocks, as only kernels for 9.0 and
// later do (CUDNN_KNOB_TYPE_TILE_CGA_M is 27).
bool HasHopperKernels(const Library::Plan& plan) {
  if (plan.kernels.empty()) return plan.engine.find("_k27=") != std::string::npos;
  return plan.kernels.find("sm90") != std::string::npos && plan.kernels.find("sm80") == std::string::npos;
}

template <typename Shape>
void ExpectPlansAsDefined(const std::vector<Case<Shape>>& cases, const std::set<std::string>& without) {
  const Library h100(900), a100(800);
  for (const auto& [name, shape] : cases) {
    const absl::Status definition = simt::Supports(shape);
    for (const Library* library : {&h100, &a100}) {
      const Library::Plan plan = library->Build(shape);
      EXPECT_EQ(plan.status.code(), definition.code())
          << library->version() << " " << name << ": " << plan.status << " but " << definition;
      if (library != &h100 || !plan.status.ok()) continue;
      EXPECT_EQ(HasHopperKernels(plan), without.count(name) == 0) << name << ": " << plan.engine << " " << plan.kernels;
    }
  }
}

// Attention of one query has its own kernel, which is Ampere's.
TEST(CudnnPlans, OfAttentionAreRefusedAsTheirDefinitionsAreAndHaveHopperKernels) {
  ExpectPlansAsDefined(Attentions(), {"OneQuery", "OneQueryOneKey"});
}

TEST(CudnnPlans, OfAttentionHaveTheSameEngineForAnyNumberOfQueries) {
  const Library h100(900);
  const std::string engine = Number(h100.Build(Shape(2, 32, 32, 6144, 6144, 128)).engine);
  EXPECT_EQ(Number(h100.Build(Shape(1, 32, 32, 8160, 8160, 128)).engine), engine);
  EXPECT_EQ(Number(h100.Build(Shape(2, 32, 32, 126, 126, 64)).engine), engine);
  EXPECT_EQ(Number(h100.Build(Shape(1, 4, 4, 37, 531, 64)).engine), engine);
}

// cuDNN has no Hopper kernel for float32 results (the last convolution of the video decoder), activations, few
// channels, convolutions along one axis, and sums without a bias. The models use only the first on large tensors.
TEST(CudnnPlans, OfConvolutionsAreRefusedAsTheirDefinitionsAreAndHaveHopperKernels) {
  std::set<std::string> without = {"Silu",        "SiluAdded", "WithoutBiasAdded",
                                   "DilatedLine", "OnePixel",  "LastConvolution"};
  for (const auto& each : Convolutions()) {
    if (each.name.find("Channels") == 0 || each.name.find("Float") == 0) without.insert(each.name);
  }
  ExpectPlansAsDefined(Convolutions(), without);
}

// A tile of another size would otherwise wait more than a second for the video decoder's last convolution.
TEST(CudnnPlans, OfConvolutionsThatAreCompiledAreCompiledOnceForAllShapes) {
  for (const int version : {900, 800}) {
    const Library library(version);
    for (const Activation activation : {Activation::kNone, Activation::kSilu}) {
      CudnnConvolution shape = Video(41, 128, 192, 128, 48);
      shape.out_dtype = DType::kF32;
      shape.activation = activation;
      const Library::Plan first = library.Build(shape);
      EXPECT_NE(first.kernels, "") << version;
      shape.frames = 17, shape.rows = 96, shape.columns = 144;
      const Library::Plan second = library.Build(shape);
      EXPECT_EQ(second.kernels, "") << version;
      EXPECT_EQ(second.engine, first.engine) << version;
    }
  }
}

// Those are loaded in some milliseconds.
TEST(CudnnPlans, OfTheVideoDecodersOtherConvolutionsCompileNothing) {
  const Library h100(900);
  for (const auto& [name, shape] : Convolutions()) {
    const bool decodes = name == "FirstBlock" || name == "Latent" || name == "Upsample" || name == "Middle" ||
                         name == "LastBlock" || name == "Added";
    if (!decodes) continue;
    EXPECT_EQ(h100.Build(shape).kernels, "") << name;
  }
}

// As CudnnPlans builds them: also with plans that share a kernel cache among those that do not.
TEST(CudnnPlans, AreTheSameIfSeveralThreadsBuildThem) {
  std::set<CudnnPlans::Shape> shapes;
  for (const int64_t queries : {126, 2048, 6144}) shapes.insert(Shape(2, 32, 32, queries, queries, 64));
  for (const int64_t frames : {17, 18, 31}) {
    shapes.insert(Video(frames, 16, 24, 512, 512));
    CudnnConvolution last = Video(frames, 128, 192, 128, 48);
    last.out_dtype = DType::kF32;
    shapes.insert(last);
  }
  const Library alone(900);
  Library together(900);
  CudnnPlans plans(together.Release(), kMostPlanBytes);
  ThreadPool threads(4);
  plans.Build(shapes, threads);
  EXPECT_EQ(plans.size(), shapes.size());
  for (const CudnnPlans::Shape& shape : shapes) {
    const auto plan = plans.For(shape);
    ASSERT_TRUE(plan.ok()) << plan.status();
    std::visit([&](const auto& s) { EXPECT_EQ((*plan)->engine(), alone.Build(s).engine); }, shape);
  }
}

// The first plan of each kind also takes what its engine keeps for later ones.
TEST(CudnnPlans, TakeAboutTheMemoryThatTheySay) {
  const Library h100(900);
  std::vector<std::unique_ptr<CudnnPlan>> plans;
  const auto expect = [&](const auto& shape) {
    const auto [host, images] = h100.BytesOf(shape, plans);
    EXPECT_LE(host + images, plans.back()->memory_bytes()) << plans.back()->engine();
    EXPECT_GE(host + images, plans.back()->memory_bytes() / 4) << plans.back()->engine();
  };
  h100.BytesOf(Shape(2, 32, 32, 6144, 6144, 128), plans);
  for (const int64_t queries : {6528, 15360}) expect(Shape(2, 32, 32, queries, queries, 128));
  expect(Shape(2, 32, 32, 126, 126, 64));
  h100.BytesOf(Video(16, 16, 24, 1024, 1024), plans);
  for (const int64_t frames : {17, 31}) expect(Video(frames, 16, 24, 1024, 1024));
  CudnnConvolution last = Video(41, 128, 192, 128, 48);
  last.out_dtype = DType::kF32;
  h100.BytesOf(last, plans);
  for (const int64_t frames : {17, 31}) {
    last.frames = frames;
    expect(last);
  }
}

constexpr char kRemedy[] = "install the wheel nvidia-cudnn-cu13>=9.15";

// Whether the error contains all of these texts.
bool Says(const CudnnFrontendOptions& options, const std::vector<std::string>& texts) {
  const absl::Status status = OpenCudnnFrontend(options).status();
  return absl::IsFailedPrecondition(status) && std::all_of(texts.begin(), texts.end(), [&](const std::string& text) {
           return status.message().find(text) != absl::string_view::npos;
         });
}

// Death tests run first, each in its own process, because an opened library stays open.
TEST(CudnnDeathTest, ALibraryThatIsMissingIsNamed) {
  EXPECT_EXIT(std::exit(Says({.library = "libcudnn.so.nowhere"}, {"libcudnn.so.nowhere", kRemedy}) ? 0 : 1),
              testing::ExitedWithCode(0), "");
}

TEST(CudnnDeathTest, ALibraryThatComputesWrongConvolutionsIsRejectedWithTheVersionToInstall) {
  EXPECT_EXIT(std::exit(Says({.library = KINORA_OLD_CUDNN}, {KINORA_OLD_CUDNN, "is cuDNN 9.10", kRemedy}) ? 0 : 1),
              testing::ExitedWithCode(0), "");
}

TEST(CudnnDeathTest, AMissingNvrtcIsLoggedAtTheStart) {
  const auto open = [](const char* nvrtc) {
    const CudnnFrontendOptions options{
        .library = KINORA_CUDNN_LIBRARY, .nvrtc = nvrtc, .device_json = absl::Substitute(kDevice, 900)};
    std::exit(OpenCudnnFrontend(options).ok() ? 0 : 1);
  };
  EXPECT_EXIT(open("libnvrtc.so.nowhere"), testing::ExitedWithCode(0),
              "nvrtc_missing error=.*libnvrtc.so.nowhere.*remedy=.*nvidia-cuda-nvrtc");
  EXPECT_EXIT(open(KINORA_NVRTC_LIBRARY), testing::ExitedWithCode(0), "^$");
}

#else

TEST(CudnnPlans, AreRefusedAsTheirDefinitionsAre) {
  GTEST_SKIP() << "cuDNN, its headers or those of cudnn-frontend are not installed: "
               << Attentions().size() + Convolutions().size() << " shapes are not compared";
}

#endif

}  // namespace
}  // namespace kinora
