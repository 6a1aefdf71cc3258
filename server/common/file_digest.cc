#include "server/common/file_digest.h"

#include <unistd.h>

#include <string_view>

#include "engine/base/uninterrupted.h"
#include "server/common/file_error.h"
#include "server/common/sha256.h"

namespace kinora {

absl::StatusOr<StoredFile> DigestFile(const std::string& path, int fd) {
  StoredFile out;
  Sha256 sha256;
  std::string buffer(1 << 20, '\0');
  while (true) {
    const ssize_t n = Uninterrupted([&] { return pread(fd, buffer.data(), buffer.size(), out.bytes); });
    if (n < 0) return FileError(path, "read");
    if (n == 0) break;
    sha256.Update(std::string_view(buffer.data(), n));
    out.bytes += n;
  }
  out.sha256 = sha256.Hex();
  return out;
}

}  // namespace kinora
