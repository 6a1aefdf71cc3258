// Test only: what a test sets of the library that stands for cuBLASLt, through dlsym on the library that is open.
#ifndef KINORA_TESTS_SIMT_CUBLASLT_CONTROL_H_
#define KINORA_TESTS_SIMT_CUBLASLT_CONTROL_H_

extern "C" {

// How many algorithms the heuristics offer for a product, 0 to 8 [1]. All compute the same; number i needs i MiB of
// workspace.
void kinora_cublaslt_offer(int algorithms);
// What cublasLtGetVersion answers [130100].
void kinora_cublaslt_pretend(unsigned long version);
// Descriptors and handles that are alive.
int kinora_cublaslt_alive();
}

#endif  // KINORA_TESTS_SIMT_CUBLASLT_CONTROL_H_
