#include "server/common/secret.h"

#include <openssl/crypto.h>
#include <sys/random.h>

#include "absl/strings/escaping.h"
#include "engine/base/check.h"
#include "engine/base/uninterrupted.h"

namespace kinora {

std::string DrawSecret() {
  std::string secret(kSecretBytes, '\0');
  // getrandom returns up to 256 bytes in one call.
  const ssize_t n = Uninterrupted([&] { return getrandom(secret.data(), secret.size(), 0); });
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
