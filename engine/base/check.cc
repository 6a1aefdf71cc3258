#include "engine/base/check.h"

#include <cstdlib>

#include "engine/base/logging.h"

namespace kinora::internal {

CheckFailure::CheckFailure(const char* file, int line, const char* condition) {
  stream_ << file << ":" << line << ": check failed: " << condition << " ";
}

CheckFailure::~CheckFailure() {
  stream_ << "\n";
  SayAtLast(stream_.str());
  std::abort();
}

}  // namespace kinora::internal
