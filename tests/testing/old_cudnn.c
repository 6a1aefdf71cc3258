// Test only: a cuDNN 9.10 that only knows its version.
#include <stddef.h>

size_t cudnnGetVersion(void) { return 91000; }
