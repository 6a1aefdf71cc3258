// Part "libraries": the driver and libraries that the program finds, and whether the backend can use them.
#include <cuda_runtime.h>
#include <dlfcn.h>

#include "engine/base/strings.h"
#include "engine/ops/cuda/cublaslt.h"
#include "engine/ops/cuda/cudnn.h"
#include "engine/ops/cuda_traits.h"
#include "tests/gpu_check/parts.h"

namespace kinora {
namespace {

// CUDA's numbering: 13000 is 13.0.
std::string CudaVersion(int version) { return Cat(version / 1000, ".", version % 1000 / 10); }
// The libraries' numbering: 130201 is 13.2.1.
std::string LibraryVersion(size_t version) {
  return Cat(version / 10000, ".", version % 10000 / 100, ".", version % 100);
}

// Returns the file from which a library's function was loaded.
std::string FileOf(const void* function) {
  Dl_info info;
  return dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

void AddRow(const char* name, const std::string& version, const std::string& file, const absl::Status& status,
            Report& report) {
  report.Add("libraries", {{"library", name},
                           {"version", version.empty() ? Json() : Json(version)},
                           {"file", file.empty() ? Json() : Json(file)},
                           {"usable", status.ok() ? "yes" : "NO"}});
  if (!status.ok()) report.NotAvailable(std::string(status.message()));
}

void FindDriver(const absl::Status& device, Report& report) {
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  AddRow("driver", driver == 0 ? "" : CudaVersion(driver), "", device, report);
  AddRow("runtime", CudaVersion(runtime), FileOf(reinterpret_cast<const void*>(&cudaRuntimeGetVersion)),
         absl::OkStatus(), report);
}

void FindCublasLt(Report& report) {
  const auto lt = OpenCublasLt(cublaslt::kLibrary);
  if (!lt.ok()) return AddRow(cublaslt::kLibrary, "", "", lt.status(), report);
  AddRow(cublaslt::kLibrary, LibraryVersion(lt->GetVersion()), FileOf(reinterpret_cast<const void*>(lt->GetVersion)),
         absl::OkStatus(), report);
}

// Reports the library that the backend finds. cuDNN only starts on a device; without one it counts as usable if it can
// be opened and is not too old.
void FindCudnn(const absl::Status& device, Report& report) {
  const absl::Status status = OpenCudnn().status();
  void* const library = dlopen(kCudnnLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  void* const function = library == nullptr ? nullptr : dlsym(library, "cudnnGetVersion");
  if (function == nullptr) return AddRow(kCudnnLibrary, "", "", status, report);
  const size_t version = reinterpret_cast<size_t (*)()>(function)();
  const bool counts = device.ok() || version < kLeastCudnnVersion;
  AddRow(kCudnnLibrary, LibraryVersion(version), FileOf(function), counts ? status : absl::OkStatus(), report);
}

// Reports the NVRTC that cuDNN finds, which the backend has opened.
void FindNvrtc(Report& report) {
  void* const library = dlopen(kNvrtcLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  void* const function = library == nullptr ? nullptr : dlsym(library, "nvrtcVersion");
  if (function == nullptr) {
    return AddRow(kNvrtcLibrary, "", "", absl::NotFoundError(Cat("cuDNN cannot open ", kNvrtcLibrary)), report);
  }
  int major = 0, minor = 0;
  reinterpret_cast<int (*)(int*, int*)>(function)(&major, &minor);
  AddRow(kNvrtcLibrary, Cat(major, ".", minor), FileOf(function), absl::OkStatus(), report);
}

}  // namespace

void CheckLibraries(const Settings& settings, Report& report) {
  const absl::Status device = DeviceName("cuda", {}).status();
  FindDriver(device, report);
  FindCublasLt(report);
  if (settings.simulated) return report.Note("cuDNN: definitions on the host, which need no library");
  FindCudnn(device, report);
  FindNvrtc(report);
}

}  // namespace kinora
