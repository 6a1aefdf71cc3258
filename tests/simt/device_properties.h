// Test only: properties of the simulated device.
#ifndef KINORA_TESTS_SIMT_DEVICE_PROPERTIES_H_
#define KINORA_TESTS_SIMT_DEVICE_PROPERTIES_H_

#include <cuda_runtime.h>

namespace kinora::simt {

const cudaDeviceProp& Properties();

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_DEVICE_PROPERTIES_H_
