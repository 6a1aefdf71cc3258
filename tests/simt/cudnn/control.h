// Test only: functions with which tests control and inspect the simulated cuDNN.
#ifndef KINORA_TESTS_SIMT_CUDNN_CONTROL_H_
#define KINORA_TESTS_SIMT_CUDNN_CONTROL_H_

#include <cstdint>

namespace kinora::simt {

// Returns how many plans were built since the process started.
int64_t BuiltPlans();
// Sets the memory that plans say they take, from now on. At first it is so much that only few plans are kept, and all
// tests drop and rebuild some.
void SetPlanBytes(int64_t bytes);

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_CUDNN_CONTROL_H_
