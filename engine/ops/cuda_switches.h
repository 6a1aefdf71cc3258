// Parts of the CUDA backend that can be switched off, to find out which of them is at fault on a device. Results stay
// the same up to the choice of kernels; speed does not. Part of every build, so that tests can compare --help with it.
#ifndef KINORA_ENGINE_OPS_CUDA_SWITCHES_H_
#define KINORA_ENGINE_OPS_CUDA_SWITCHES_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kinora {

struct CudaSwitches {
  bool graphs = true;        // captured steps; off: every step enqueues its kernels
  bool early_launch = true;  // programmatic dependent launch (kernels/early_launch.h)
  bool branch = true;        // a second stream, on which the sound is computed beside the video
  bool cudnn = true;         // off: attention and convolutions by matrix products
  bool tuning = true;        // measured choice among cuBLASLt's algorithms; off: its first proposal
  // Waits behind each op, so that an error of the device names the op and the shape that caused it. Without graphs.
  bool synchronize = false;

  bool operator==(const CudaSwitches&) const = default;
};

// Switches as a program's flags set them. Where a flag is not given (nullopt), an environment variable decides.
struct CudaFlags {
  std::optional<CudaSwitches> off{};  // from ParseCudaOff
  std::optional<bool> synchronize{};
};

// The environment variables.
inline constexpr char kCudaOffVariable[] = "KINORA_CUDA_OFF";                  // as ParseCudaOff accepts it
inline constexpr char kCudaSynchronizeVariable[] = "KINORA_CUDA_SYNCHRONIZE";  // "", "0" or "1"

// Every name that `off` may hold.
std::vector<std::string> CudaSwitchNames();

// off: names separated by commas: graphs, early-launch, branch, cudnn, tuning. Fails with InvalidArgument for another
// name; the message starts with `source`, the flag or variable, and lists the names.
absl::StatusOr<CudaSwitches> ParseCudaOff(std::string_view source, std::string_view off);

// Fails with InvalidArgument for a wrong value in the environment; the message starts with the variable's name.
absl::StatusOr<CudaSwitches> ReadCudaSwitches(const CudaFlags& flags);

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CUDA_SWITCHES_H_
