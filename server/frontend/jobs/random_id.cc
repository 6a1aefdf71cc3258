#include "server/frontend/jobs/random_id.h"

#include <sys/random.h>

#include "absl/strings/escaping.h"
#include "engine/base/check.h"

namespace kinora {
namespace {

void Fill(void* bytes, size_t size) {  // getrandom returns all of up to 256 bytes once the pool is ready
  KINORA_CHECK(getrandom(bytes, size, 0) == static_cast<ssize_t>(size));
}

}  // namespace

std::string RandomId() {
  char bytes[16];
  Fill(bytes, sizeof(bytes));
  return absl::BytesToHexString(absl::string_view(bytes, sizeof(bytes)));
}

uint64_t RandomSeed() {
  uint32_t seed;
  Fill(&seed, sizeof(seed));
  return seed;
}

}  // namespace kinora
