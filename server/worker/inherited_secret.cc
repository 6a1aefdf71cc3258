#include "server/worker/inherited_secret.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/file_descriptor.h"
#include "engine/base/uninterrupted.h"
#include "server/common/secret.h"

namespace kinora {

absl::StatusOr<std::string> ReadInheritedSecret(int fd) {
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISFIFO(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("secret_fd: ", fd, " is not a pipe of a supervisor"));
  }
  const FileDescriptor pipe(fd);
  std::array<char, kSecretBytes + 1> secret;  // one more, to detect a longer secret
  size_t size = 0;
  while (size < secret.size()) {
    const ssize_t n = Uninterrupted([&] { return read(fd, secret.data() + size, secret.size() - size); });
    if (n <= 0) break;
    size += static_cast<size_t>(n);
  }
  if (size != kSecretBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("secret_fd: the pipe ", fd, " does not hold the ", kSecretBytes, " bytes of a supervisor"));
  }
  return std::string(secret.data(), size);
}

}  // namespace kinora
