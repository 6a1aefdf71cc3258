// Test only: the CUDA driver functions that write an output, for plans built without a device. CMake adds the others,
// which return 0, by the names in the toolkit's stub.
#include <elf.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static char something[4096];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;  // for what follows

// The names of the kernels that were looked up since the last call, each followed by a space.
static char looked_up[1 << 16];
const char* LookedUpKernels(void) {
  static char names[sizeof(looked_up)];
  pthread_mutex_lock(&mutex);
  memcpy(names, looked_up, sizeof(names));
  looked_up[0] = '\0';
  pthread_mutex_unlock(&mutex);
  return names;
}
static void Record(const char* name) {
  pthread_mutex_lock(&mutex);
  const size_t used = strlen(looked_up);
  snprintf(looked_up + used, sizeof(looked_up) - used, "%s ", name);
  pthread_mutex_unlock(&mutex);
}

// The bytes of the images that were loaded since the last call.
static size_t loaded;
size_t LoadedBytes(void) {
  pthread_mutex_lock(&mutex);
  const size_t bytes = loaded;
  loaded = 0;
  pthread_mutex_unlock(&mutex);
  return bytes;
}
// An ELF file ends with its table of sections or of segments.
static void Load(const void* image) {
  Elf64_Ehdr header;
  memcpy(&header, image, sizeof(header));
  const size_t sections = header.e_shoff + (size_t)header.e_shnum * header.e_shentsize;
  const size_t segments = header.e_phoff + (size_t)header.e_phnum * header.e_phentsize;
  if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return;
  pthread_mutex_lock(&mutex);
  loaded += sections > segments ? sections : segments;
  pthread_mutex_unlock(&mutex);
}
enum { kNotFound = 500, kNoDriver = 34 };  // kNoDriver: cudaErrorStubLibrary; NVRTC treats it as a stub

int cuInit(void) { return kNoDriver; }
int cuGetExportTable(void) { return kNoDriver; }
int cuDriverGetVersion(int* version) { return *version = 13000, 0; }
int cuGetErrorName(int error, const char** out) { return (void)error, *out = "an error", 0; }
int cuGetErrorString(int error, const char** out) { return (void)error, *out = "an error", 0; }
int cuGetProcAddress(const char* name, void** out) { return (void)name, *out = NULL, kNotFound; }
int cuGetProcAddress_v2(const char* name, void** out) { return (void)name, *out = NULL, kNotFound; }
int cuCtxGetCurrent(void** out) { return *out = something, 0; }
int cuModuleLoadData(void** out, const void* image) { return Load(image), *out = something, 0; }
int cuModuleGetFunction(void** out, void* module, const char* name) {
  return (void)module, Record(name), *out = something, 0;
}
int cuLibraryLoadData(void** out, const void* image) { return Load(image), *out = something, 0; }
int cuLibraryGetKernel(void** out, void* library, const char* name) {
  return (void)library, Record(name), *out = something, 0;
}
int cuLibraryGetModule(void** out) { return *out = something, 0; }
int cuLibraryGetKernelCount(unsigned* out) { return *out = 1, 0; }
int cuLibraryEnumerateKernels(void** out, unsigned count) {
  for (unsigned i = 0; i < count; i++) out[i] = something;
  return 0;
}
int cuKernelGetFunction(void** out) { return *out = something, 0; }
int cuKernelGetName(const char** out) { return *out = "kernel", 0; }
int cuKernelGetAttribute(int* out) { return *out = 64, 0; }
int cuFuncGetName(const char** out) { return *out = "kernel", 0; }
int cuFuncGetAttribute(int* out) { return *out = 64, 0; }
