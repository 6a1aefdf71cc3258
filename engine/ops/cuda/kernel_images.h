// The devices for which a build has its kernels. A device of another compute capability fails at its first launch.
#ifndef KINORA_ENGINE_OPS_CUDA_KERNEL_IMAGES_H_
#define KINORA_ENGINE_OPS_CUDA_KERNEL_IMAGES_H_

#include <string>
#include <string_view>

namespace kinora {

// architectures: as CMake names them, separated by commas: "80-real,90a-real,100f-real,120". An image of 80 runs on 8.0
// and later 8.x, and one of 100f on 10.0 and later 10.x, but one of 90a only on 9.0. Without "-real" there is PTX, too,
// and with "-virtual" there is only PTX, which the driver compiles for the named capability and all later ones, except
// that of 90a or 100f.
bool HasKernelsFor(int major, int minor, std::string_view architectures);
// Returns the capabilities that have kernels, for people: "8.0 to 8.9, 9.0, 10.0 to 10.9, 12.0 and later".
std::string CapabilitiesWithKernels(std::string_view architectures);

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CUDA_KERNEL_IMAGES_H_
