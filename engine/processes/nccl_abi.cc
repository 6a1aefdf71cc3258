#include "engine/processes/nccl_abi.h"

#include <dlfcn.h>

#include <type_traits>

#include "absl/strings/str_cat.h"

namespace kinora::nccl {
namespace {

constexpr char kElse[] =
    ": install NCCL 2.20 or later for CUDA 13 (libnccl2, or the wheel nvidia-nccl-cu13) and name its folder in "
    "LD_LIBRARY_PATH, or use one device per group";

std::string Version(int code) { return absl::StrCat(code / 10000, ".", code / 100 % 100, ".", code % 100); }

}  // namespace

absl::StatusOr<Functions> Open(const std::string& file) {
  const auto refuse = [&file](const std::string& why) {
    return absl::FailedPreconditionError(absl::StrCat("device: cuda: ", file, " ", why, kElse));
  };
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return refuse(absl::StrCat("cannot be opened (", dlerror(), ")"));
  Functions nccl{};
  std::string missing;
  const auto find = [&](const char* name, auto& function, bool needed) {
    void* const symbol = dlsym(library, absl::StrCat("nccl", name).c_str());
    function = reinterpret_cast<std::decay_t<decltype(function)>>(symbol);
    if (symbol == nullptr && needed && missing.empty()) missing = name;
  };
#define KINORA_FIND(name) find(#name, nccl.name, true)
#define KINORA_LOOK_FOR(name) find(#name, nccl.name, false)
  KINORA_FIND(GetVersion);
  int version = 0;
  if (missing.empty() && nccl.GetVersion(&version) == Result::kSuccess && version < kLeastVersion) {
    return refuse(absl::StrCat("is version ", Version(version), ", this program needs ", Version(kLeastVersion)));
  }
  KINORA_FIND(GetUniqueId), KINORA_FIND(GetErrorString), KINORA_FIND(GetLastError);
  KINORA_FIND(CommInitRankConfig), KINORA_FIND(CommSplit), KINORA_FIND(CommFinalize), KINORA_FIND(CommDestroy);
  KINORA_FIND(CommAbort), KINORA_FIND(CommGetAsyncError);
  KINORA_FIND(AllReduce), KINORA_FIND(AllGather), KINORA_FIND(Broadcast), KINORA_FIND(Send), KINORA_FIND(Recv);
  KINORA_FIND(GroupStart), KINORA_FIND(GroupEnd);
  KINORA_LOOK_FOR(AlltoAll);
#undef KINORA_LOOK_FOR
#undef KINORA_FIND
  if (!missing.empty()) return refuse(absl::StrCat("has no function nccl", missing));
  return nccl;
}

}  // namespace kinora::nccl
