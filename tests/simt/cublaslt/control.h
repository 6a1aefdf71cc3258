// Test only: functions with which tests control the simulated cuBLASLt. Find them with dlsym in the opened library.
#ifndef KINORA_TESTS_SIMT_CUBLASLT_CONTROL_H_
#define KINORA_TESTS_SIMT_CUBLASLT_CONTROL_H_

extern "C" {

// Sets how many algorithms the heuristics return for a product, 0 to 8 [1]. All compute the same; algorithm i needs i
// MiB of workspace.
void kinora_cublaslt_offer(int algorithms);
// Sets the result of cublasLtGetVersion [130100].
void kinora_cublaslt_pretend(unsigned long version);
// Returns the number of descriptors and handles that have not been destroyed.
int kinora_cublaslt_alive();
}

#endif  // KINORA_TESTS_SIMT_CUBLASLT_CONTROL_H_
