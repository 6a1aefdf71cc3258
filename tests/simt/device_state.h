// Test only: state that all parts of the simulated device share: whether it is lost, its random numbers, its counters.
#ifndef KINORA_TESTS_SIMT_DEVICE_STATE_H_
#define KINORA_TESTS_SIMT_DEVICE_STATE_H_

#include <cstdint>
#include <string>

#include "tests/simt/control.h"

namespace kinora::simt {

// Admits one host thread at a time to the simulation. Not a mutex, because ThreadSanitizer would infer an order of the
// host's threads from it.
class DeviceLock {
 public:
  DeviceLock();
  ~DeviceLock();
};

// Records `why` unless the device is already lost. Afterwards every call returns cudaErrorLaunchFailure, as in CUDA.
void LoseDevice(const std::string& why);
bool Lost();
void ForgetFailure();

// Returns 0 unless the order is random.
uint64_t Random();

Counts& Counters();

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_DEVICE_STATE_H_
