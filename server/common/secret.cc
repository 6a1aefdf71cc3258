#include "server/common/secret.h"

#include <openssl/crypto.h>
#include <sys/random.h>

#include <cerrno>

#include "absl/strings/escaping.h"
#include "engine/base/check.h"

namespace kinora {

std::string DrawSecret() {
  std::string secret(kSecretBytes, '\0');
  ssize_t n;
  do {
    n = getrandom(secret.data(), secret.size(), 0);  // so few bytes come whole
  } while (n < 0 && errno == EINTR);
  KINORA_CHECK_EQ(n, static_cast<ssize_t>(secret.size())) << "the kernel gives no random numbers";
  return secret;
}

std::string DrawIncarnation() {
  constexpr size_t kBytes = 8;
  return absl::BytesToHexString(DrawSecret().substr(0, kBytes));
}

bool SameSecret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace kinora
