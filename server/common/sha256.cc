#include "server/common/sha256.h"

#include <openssl/evp.h>

#include "absl/strings/escaping.h"
#include "engine/base/check.h"

namespace kinora {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  KINORA_CHECK(EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1) << "libcrypto has no SHA-256";
}
Sha256::~Sha256() = default;

void Sha256::Update(std::string_view bytes) { EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()); }

std::string Sha256::Hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_DigestFinal_ex(state_->context, digest, &size);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), size));
}

std::string Sha256Hex(std::string_view bytes) {
  Sha256 sha256;
  sha256.Update(bytes);
  return sha256.Hex();
}

}  // namespace kinora
