// KINORA_CHECK(condition) << "what went wrong": for programming errors only; prints file and line, then aborts.
// External errors (files, requests, devices) are absl::Status.
#ifndef KINORA_ENGINE_BASE_CHECK_H_
#define KINORA_ENGINE_BASE_CHECK_H_

#include <sstream>

namespace kinora::internal {

class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  [[noreturn]] ~CheckFailure();
  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

struct Voidify {  // lets the macro be one expression of type void
  void operator&(std::ostream&) {}
};

}  // namespace kinora::internal

#define KINORA_CHECK(condition) \
  (condition)                   \
      ? static_cast<void>(0)    \
      : ::kinora::internal::Voidify() & ::kinora::internal::CheckFailure(__FILE__, __LINE__, #condition).stream()

#define KINORA_CHECK_EQ(a, b) KINORA_CHECK((a) == (b)) << (a) << " vs " << (b) << " "

#endif  // KINORA_ENGINE_BASE_CHECK_H_
