// Whether kernels may be launched early (LaunchEarly in device/device.h), for the whole process.
#ifndef KINORA_KERNELS_EARLY_LAUNCH_H_
#define KINORA_KERNELS_EARLY_LAUNCH_H_

#include <atomic>

namespace kinora::kernels {

inline std::atomic<bool> early_launch_allowed = true;

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_EARLY_LAUNCH_H_
