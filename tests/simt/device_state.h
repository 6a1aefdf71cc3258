// Test only: what all parts of the simulated device share: whether it is lost, its dice, its counters.
#ifndef KINORA_TESTS_SIMT_DEVICE_STATE_H_
#define KINORA_TESTS_SIMT_DEVICE_STATE_H_

#include <cstdint>
#include <string>

#include "tests/simt/control.h"

namespace kinora::simt {

// One host thread at a time is inside the simulation. Not a mutex: ThreadSanitizer must not learn an order of the
// host's threads from it.
class DeviceLock {
 public:
  DeviceLock();
  ~DeviceLock();
};

// The first reason stays. From then on every call answers cudaErrorLaunchFailure, as CUDA's do.
void LoseDevice(const std::string& why);
bool Lost();

// 0 unless the order is random.
uint64_t Random();

Counts& Counters();

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_DEVICE_STATE_H_
