// Retries system calls that a signal interrupts.
//   const ssize_t n = Uninterrupted([&] { return read(fd, data, size); });  // read, but never fails with EINTR
#ifndef KINORA_ENGINE_BASE_UNINTERRUPTED_H_
#define KINORA_ENGINE_BASE_UNINTERRUPTED_H_

#include <cerrno>

namespace kinora {

template <typename Call>
auto Uninterrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace kinora

#endif  // KINORA_ENGINE_BASE_UNINTERRUPTED_H_
