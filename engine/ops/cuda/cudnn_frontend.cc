// The only file that includes cudnn-frontend, whose headers take half a minute to compile. libcudnn is loaded when the
// backend is opened, so a program without it still starts and can report what is missing.
#include "engine/ops/cuda/cudnn_frontend.h"

#include <dlfcn.h>

#include <cstring>
#include <exception>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "engine/ops/cuda/cuda_status.h"
#include "engine/ops/cuda_traits.h"

namespace kinora {

// The front end loads a shared CUDA runtime, version 12 or 13, with dlopen. The program already has one and must not
// load a second.
void* RuntimeOfThisProgram(const char* library, int) {
  return std::strcmp(library, "libcudart.so.13") == 0 ? reinterpret_cast<void*>(&RuntimeOfThisProgram) : nullptr;
}
void* RuntimeFunction(void* library, const char* name) {
  if (library != reinterpret_cast<void*>(&RuntimeOfThisProgram)) return dlsym(library, name);
  const std::string_view wanted = name;
  if (wanted == "cudaGetDevice") return reinterpret_cast<void*>(&cudaGetDevice);
  if (wanted == "cudaGetErrorString") return reinterpret_cast<void*>(&cudaGetErrorString);
  if (wanted == "cudaMemcpyAsync") return reinterpret_cast<void*>(&cudaMemcpyAsync);
  if (wanted == "cudaMemsetAsync") return reinterpret_cast<void*>(&cudaMemsetAsync);
  if (wanted == "cudaGetDeviceProperties") {
    return reinterpret_cast<void*>(static_cast<cudaError_t (*)(cudaDeviceProp*, int)>(&cudaGetDeviceProperties));
  }
  KINORA_CHECK(false) << "cudnn-frontend calls " << name;
  return nullptr;
}

}  // namespace kinora

#define dlopen(name, flags) ::kinora::RuntimeOfThisProgram(name, flags)
#define dlsym(library, name) ::kinora::RuntimeFunction(library, name)
#include <cudnn_frontend.h>
#undef dlopen
#undef dlsym

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // NOLINT(misc-definitions-in-headers): the front end expects its program to define it
}

namespace kinora {
namespace {

namespace fe = cudnn_frontend;

// Its forward attention needs no lengths for any number of queries, so no plan has memory of its own.
static_assert(CUDNN_FRONTEND_VERSION >= 11500, "cudnn-frontend 1.15 or later is needed");

constexpr char kWhatToDo[] =
    ": install the wheel nvidia-cudnn-cu13>=9.15 and add its folder to LD_LIBRARY_PATH, or use the cpu";

// Converts the front end's errors: Unimplemented for an unsupported shape, otherwise Internal.
absl::Status ToStatus(fe::error_t error, const char* what) {
  if (error.is_good()) return absl::OkStatus();
  const std::string message = absl::StrCat("cuDNN: ", what, ": ", error.get_message());
  switch (error.get_code()) {
    case fe::error_code_t::GRAPH_NOT_SUPPORTED:
    case fe::error_code_t::HEURISTIC_QUERY_FAILED:
    case fe::error_code_t::GRAPH_EXECUTION_PLAN_CREATION_FAILED:
    case fe::error_code_t::INVALID_VALUE:
      return absl::UnimplementedError(message);
    default:
      return absl::InternalError(message);
  }
}

// Engines load their kernels when a plan is built, which is forbidden during a capture of this thread. This allows it
// while it exists.
class OutsideOfCaptures {
 public:
  OutsideOfCaptures() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~OutsideOfCaptures() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  OutsideOfCaptures(const OutsideOfCaptures&) = delete;
  OutsideOfCaptures& operator=(const OutsideOfCaptures&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

using TensorPtr = std::shared_ptr<fe::graph::Tensor_attributes>;
using Dims = std::vector<int64_t>;

// Operands are numbered in the shape's order. This is the number of the previous contents of a convolution's result
// (operand 2, the same memory), if it adds to them.
constexpr int64_t kBefore = 15;

// What a plan takes: an estimate, since cuDNN does not tell. cuDNN 9.19's plans for an H100 were measured to take 0.5
// to 1.5 MB of the host's heap, and up to 64 KiB for the image of a kernel that cuDNN compiled (cudnn_plans_test).
constexpr int64_t kPlanBytes = int64_t{3} << 19;

// A handle of the library; null: the device is only described.
class Handle {
 public:
  explicit Handle(cudnnHandle_t handle) : handle_(handle) {}
  ~Handle() {
    if (handle_ != nullptr) fe::detail::destroy_handle(handle_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  cudnnHandle_t get() const { return handle_; }

 private:
  const cudnnHandle_t handle_;
};

class FrontendPlan : public CudnnPlan {
 public:
  struct Traits {
    int64_t workspace_bytes = 0;
    bool adds = false;  // to operand 2
  };
  FrontendPlan(std::shared_ptr<const Handle> handle, std::shared_ptr<fe::graph::Graph> graph, const Traits& traits)
      : handle_(std::move(handle)), graph_(std::move(graph)), traits_(traits) {}
  ~FrontendPlan() override {
    const OutsideOfCaptures outside;
    graph_.reset();
  }

  int64_t workspace_bytes() const override { return traits_.workspace_bytes; }
  int64_t memory_bytes() const override { return kPlanBytes; }
  std::string engine() const override {
    std::string name;
    return graph_->get_plan_name(name).is_good() ? name : "";
  }
  absl::Status Run(absl::Span<void* const> operands, void* workspace, cudaStream_t stream) const override {
    std::unordered_map<int64_t, void*> pointers;
    for (size_t i = 0; i < operands.size(); ++i) pointers[static_cast<int64_t>(i)] = operands[i];
    if (traits_.adds) pointers[kBefore] = operands[2];
    try {
      if (fe::detail::set_stream(handle_->get(), stream) != CUDNN_STATUS_SUCCESS) {
        return absl::InternalError("cuDNN: its stream cannot be set");
      }
      return ToStatus(graph_->execute(handle_->get(), pointers, workspace), "a plan");
    } catch (const std::exception& e) {
      return absl::InternalError(absl::StrCat("cuDNN: a plan: ", e.what()));
    }
  }

 private:
  const std::shared_ptr<const Handle> handle_;
  std::shared_ptr<fe::graph::Graph> graph_;
  const Traits traits_;
};

TensorPtr Heads(fe::graph::Graph& graph, const char* name, int64_t uid, const Dims& dims, const HeadStrides& s) {
  return graph.tensor(fe::graph::Tensor_attributes()
                          .set_name(name)
                          .set_uid(uid)
                          .set_dim(dims)
                          .set_stride({s.batch, s.head, s.row, 1})
                          .set_data_type(fe::DataType_t::BFLOAT16));
}

void AddAttention(const CudnnAttention& a, fe::graph::Graph& graph) {
  const TensorPtr q = Heads(graph, "q", 0, {a.batch, a.heads, a.queries, a.head_width}, a.q);
  const TensorPtr k = Heads(graph, "k", 1, {a.batch, a.kv_heads, a.keys, a.head_width}, a.k);
  const TensorPtr v = Heads(graph, "v", 2, {a.batch, a.kv_heads, a.keys, a.head_width}, a.v);
  auto attributes =
      fe::graph::SDPA_attributes().set_name("attention").set_generate_stats(false).set_attn_scale(a.scale);
  if (a.causal) {
    attributes.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT).set_diagonal_band_right_bound(0);
  }
  if (a.window > 0) attributes.set_diagonal_band_left_bound(static_cast<int>(a.window));
  if (a.bias) {
    attributes.set_bias(
        graph.tensor(fe::graph::Tensor_attributes()
                         .set_name("bias")
                         .set_uid(4)
                         .set_dim({1, 1, a.queries, a.keys})
                         .set_stride({a.queries * a.bias_stride, a.queries * a.bias_stride, a.bias_stride, 1})
                         .set_data_type(fe::DataType_t::FLOAT)));
  }
  graph.sdpa(q, k, v, attributes)[0]
      ->set_output(true)
      .set_uid(3)
      .set_dim({a.batch, a.heads, a.queries, a.head_width})
      .set_stride({a.out.batch, a.out.head, a.out.row, 1})
      .set_data_type(fe::DataType_t::BFLOAT16);
}

fe::DataType_t TypeOf(DType dtype) { return dtype == DType::kBF16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::FLOAT; }

TensorPtr Pixels(fe::graph::Graph& graph, const char* name, int64_t uid, const Dims& dims, int64_t stride,
                 DType dtype) {
  return graph.tensor(
      fe::graph::Tensor_attributes()
          .set_name(name)
          .set_uid(uid)
          .set_dim(dims)
          .set_stride({dims[2] * dims[3] * dims[4] * stride, 1, dims[3] * dims[4] * stride, dims[4] * stride, stride})
          .set_data_type(TypeOf(dtype)));
}

// [out_channels, in_channels, kernel].
TensorPtr Filter(fe::graph::Graph& graph, const CudnnConvolution& c) {
  const int64_t line = c.width.kernel * c.in_channels;
  return graph.tensor(fe::graph::Tensor_attributes()
                          .set_name("filter")
                          .set_uid(1)
                          .set_dim({c.out_channels, c.in_channels, c.time.kernel, c.height.kernel, c.width.kernel})
                          .set_stride({c.filter_stride, 1, c.height.kernel * line, line, c.in_channels})
                          .set_data_type(fe::DataType_t::BFLOAT16));
}

// Adds the previous result, bias and activation after a convolution. cuDNN has Hopper kernels only for a sum before a
// bias of the result's type; for any other order or type, it compiles an Ampere kernel. It has no Hopper kernel for an
// activation or a float32 result.
TensorPtr Finished(fe::graph::Graph& graph, const CudnnConvolution& c, TensorPtr y, const Dims& out) {
  const auto sum = fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD);
  const auto add_before = [&] {
    y = graph.pointwise(y, Pixels(graph, "before", kBefore, out, c.out_stride, c.out_dtype), sum);
  };
  const bool activates = c.activation == Activation::kSilu, fused = !activates && c.out_dtype == DType::kBF16;
  if (c.accumulate && fused) add_before();
  if (c.bias) {
    const int64_t n = c.out_channels;
    y = graph.pointwise(y,
                        graph.tensor(fe::graph::Tensor_attributes()
                                         .set_name("bias")
                                         .set_uid(3)
                                         .set_dim({1, n, 1, 1, 1})
                                         .set_stride({n, 1, n, n, n})
                                         .set_data_type(TypeOf(c.out_dtype))),
                        sum);
  }
  if (activates) y = graph.pointwise(y, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::SWISH_FWD));
  if (c.accumulate && !fused) add_before();
  if (c.out_dtype == DType::kF32 && !activates && !c.accumulate) {
    // The library rejects float32 as the result of a convolution or of its bias, but not after another pointwise
    // operation.
    y = graph.pointwise(y, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::IDENTITY));
  }
  return y;
}

// Whether cuDNN compiles a kernel for the convolution, which takes more than a second, rather than load one of its own.
bool IsCompiled(const CudnnConvolution& c) {
  return c.activation != Activation::kNone || c.out_dtype != DType::kBF16 || (c.accumulate && !c.bias);
}

// Channels are second in the library's order of extents, whatever their position in memory.
void AddConvolution(const CudnnConvolution& c, fe::graph::Graph& graph) {
  const auto extent = [](const ConvAxis& axis, int64_t n) {
    return (n + axis.before + axis.after - int64_t{axis.dilation} * (axis.kernel - 1) - 1) / axis.stride + 1;
  };
  const Dims out = {1, c.out_channels, extent(c.time, c.frames), extent(c.height, c.rows), extent(c.width, c.columns)};
  const TensorPtr x = Pixels(graph, "x", 0, {1, c.in_channels, c.frames, c.rows, c.columns}, c.x_stride, c.dtype);
  const TensorPtr y = graph.conv_fprop(x, Filter(graph, c),
                                       fe::graph::Conv_fprop_attributes()
                                           .set_name("convolution")
                                           .set_pre_padding({c.time.before, c.height.before, c.width.before})
                                           .set_post_padding({c.time.after, c.height.after, c.width.after})
                                           .set_stride({c.time.stride, c.height.stride, c.width.stride})
                                           .set_dilation({c.time.dilation, c.height.dilation, c.width.dilation}));
  Finished(graph, c, y, out)
      ->set_output(true)
      .set_uid(2)
      .set_dim(out)
      .set_stride({out[2] * out[3] * out[4] * c.out_stride, 1, out[3] * out[4] * c.out_stride, out[4] * c.out_stride,
                   c.out_stride})
      .set_data_type(TypeOf(c.out_dtype));
}

absl::StatusOr<std::shared_ptr<const Handle>> MakeHandle() {
  cudnnHandle_t handle = nullptr;
  if (const cudnnStatus_t status = fe::detail::create_handle(&handle); status != CUDNN_STATUS_SUCCESS) {
    return absl::FailedPreconditionError(
        absl::StrCat("device: cuda: cuDNN does not start (", fe::detail::get_error_string(status), ")", kWhatToDo));
  }
  return std::make_shared<const Handle>(handle);
}

class FrontendCudnn : public Cudnn {
 public:
  // device: the current one. first: a handle for it.
  FrontendCudnn(int device, std::shared_ptr<const Handle> first) : device_(device), free_{std::move(first)} {}
  explicit FrontendCudnn(std::shared_ptr<const fe::DeviceProperties> described) : described_(std::move(described)) {}

  absl::StatusOr<std::unique_ptr<CudnnPlan>> Build(const CudnnAttention& shape) override {
    const OutsideOfCaptures outside;
    return BuildGraph([&](fe::graph::Graph& graph) { AddAttention(shape, graph); }, {});
  }

  absl::StatusOr<std::unique_ptr<CudnnPlan>> Build(const CudnnConvolution& shape) override {
    const OutsideOfCaptures outside;
    if (shape.dtype != DType::kBF16)
      return absl::UnimplementedError("cuDNN: convolutions of float32 are not given to it");
    std::unique_lock<std::mutex> alone(compiles_, std::defer_lock);
    if (IsCompiled(shape)) alone.lock();
    const auto add = [&](fe::graph::Graph& graph) {
      AddConvolution(shape, graph);
      if (!IsCompiled(shape)) return;
      // One kernel then serves all shapes of this form. The kernels that are not compiled take fixed shapes only.
      graph.set_dynamic_shape_enabled(true).set_kernel_cache(compiled_);
    };
    return BuildGraph(add, {.adds = shape.accumulate});
  }

 private:
  template <typename AddNodes>
  absl::StatusOr<std::unique_ptr<CudnnPlan>> BuildGraph(const AddNodes& add_nodes, FrontendPlan::Traits traits) {
    KINORA_ASSIGN_OR_RETURN(std::shared_ptr<const Handle> own, TakeHandle());
    const absl::Cleanup give_back = [&] { GiveBack(own); };
    const cudnnHandle_t handle = own->get();
    auto graph = std::make_shared<fe::graph::Graph>();
    graph->set_intermediate_data_type(fe::DataType_t::FLOAT).set_compute_data_type(fe::DataType_t::FLOAT);
    if (described_ != nullptr) graph->set_device_properties(described_);
    try {
      add_nodes(*graph);
      KINORA_RETURN_IF_ERROR(ToStatus(graph->validate(), "a graph"));
      KINORA_RETURN_IF_ERROR(
          ToStatus(handle != nullptr ? graph->build_operation_graph(handle) : graph->build_operation_graph(),
                   "an operation graph"));
      KINORA_RETURN_IF_ERROR(ToStatus(graph->create_execution_plans({fe::HeurMode_t::A}), "its heuristic"));
      graph->deselect_workspace_greater_than(kProductWorkspaceBytes);
      KINORA_RETURN_IF_ERROR(ToStatus(graph->check_support(), "its engines"));
      KINORA_RETURN_IF_ERROR(ToStatus(graph->build_plans(), "its plans"));
      KINORA_RETURN_IF_ERROR(ToStatus(graph->get_workspace_size(traits.workspace_bytes), "a plan's workspace"));
    } catch (const std::exception& e) {
      return absl::InternalError(absl::StrCat("cuDNN: ", e.what()));
    }
    if (traits.workspace_bytes > kProductWorkspaceBytes) {
      return absl::UnimplementedError(absl::StrCat("cuDNN: a plan that needs ", traits.workspace_bytes, " bytes"));
    }
    return std::make_unique<FrontendPlan>(own, std::move(graph), traits);
  }

  // Threads must not share a handle while they build plans, so each takes one of its own. They are kept for later.
  absl::StatusOr<std::shared_ptr<const Handle>> TakeHandle() {
    if (described_ != nullptr) return std::make_shared<const Handle>(nullptr);
    KINORA_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(device_), "a thread that builds plans"));
    const std::lock_guard lock(mu_);
    if (free_.empty()) return MakeHandle();
    std::shared_ptr<const Handle> handle = std::move(free_.back());
    free_.pop_back();
    return handle;
  }
  void GiveBack(std::shared_ptr<const Handle> handle) {
    if (described_ != nullptr) return;
    const std::lock_guard lock(mu_);
    free_.push_back(std::move(handle));
  }

  const std::shared_ptr<const fe::DeviceProperties> described_;
  const int device_ = 0;
  std::mutex mu_;
  std::vector<std::shared_ptr<const Handle>> free_;
  std::mutex compiles_;  // held while `compiled_` is used, which is not known to be thread-safe
  const std::shared_ptr<fe::KernelCache> compiled_ = std::make_shared<fe::KernelCache>();  // of convolutions
};

absl::Status Load(const std::string& library) {
  if (fe::cudnn_dlhandle == nullptr) fe::cudnn_dlhandle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (fe::cudnn_dlhandle == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("device: cuda: ", dlerror(), kWhatToDo));
  }
  if (const size_t version = fe::detail::get_backend_version(); version < kLeastCudnnVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("device: cuda: ", library, " is cuDNN ", version / 10000, ".", version / 100 % 100,
                     ", and versions before 9.15 compute wrong bf16 convolutions of large videos", kWhatToDo));
  }
  return absl::OkStatus();
}

// Logs if cuDNN cannot open NVRTC, which it searches where dlopen does and beside its own folder.
void LookForNvrtc(const std::string& nvrtc) {
  Dl_info cudnn{};
  const void* const function = dlsym(fe::cudnn_dlhandle, "cudnnGetVersion");
  const bool known = function != nullptr && dladdr(function, &cudnn) != 0 && cudnn.dli_fname != nullptr;
  const std::string file = known ? cudnn.dli_fname : "", folder = file.substr(0, file.rfind('/') + 1);
  std::string why;
  for (const char* place : {"", "./", "../../cuda_nvrtc/lib/", "../../cu13/lib/"}) {
    // It stays open: cuDNN opens it again.
    const std::string path = absl::StrCat(*place == '\0' ? "" : folder, place, nvrtc);
    if (dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL) != nullptr) return;
    if (why.empty()) why = dlerror();
  }
  Log(Severity::kWarning, "nvrtc_missing",
      {{"error", why},
       {"effect", "cuDNN cannot compile its attention: short sequences take slower products, long ones fail"},
       {"remedy", "install the wheel nvidia-cuda-nvrtc for CUDA 13 and add its folder to LD_LIBRARY_PATH"}});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Cudnn>> OpenCudnnFrontend(const CudnnFrontendOptions& options) {
  KINORA_RETURN_IF_ERROR(Load(options.library));
  LookForNvrtc(options.nvrtc);
  if (!options.device_json.empty()) {
    auto described = std::make_shared<fe::DeviceProperties>();
    KINORA_RETURN_IF_ERROR(
        ToStatus(described->deserialize(std::vector<uint8_t>(options.device_json.begin(), options.device_json.end())),
                 "the description of a device"));
    return std::make_unique<FrontendCudnn>(std::move(described));
  }
  int device = 0;
  KINORA_RETURN_IF_ERROR(CudaStatus(cudaGetDevice(&device), "the current device"));
  KINORA_ASSIGN_OR_RETURN(std::shared_ptr<const Handle> handle, MakeHandle());
  return std::make_unique<FrontendCudnn>(device, std::move(handle));
}

absl::StatusOr<std::unique_ptr<Cudnn>> OpenCudnn() { return OpenCudnnFrontend({}); }

}  // namespace kinora
