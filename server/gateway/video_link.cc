#include "server/gateway/video_link.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "server/common/regular_file.h"
#include "server/common/secret.h"
#include "server/common/status_details.h"

namespace kinora {
namespace {

constexpr size_t kSaltBytes = kSecretBytes, kTagBytes = 16, kExpiryBytes = 8;
constexpr size_t kCipherKeyBytes = 32, kNonceBytes = 12;
constexpr size_t kLongestLink = 8192;  // an Authorization has at most 4096 characters
constexpr char kPurpose[] = "kinora video link 1";

template <auto kFree>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};

unsigned char* Bytes(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }
const unsigned char* Bytes(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

std::string Encode(int64_t expiry) {
  std::string bytes;
  for (int shift = 56; shift >= 0; shift -= 8) bytes += static_cast<char>(static_cast<uint64_t>(expiry) >> shift);
  return bytes;
}

int64_t DecodeExpiry(std::string_view bytes) {
  uint64_t expiry = 0;
  for (size_t i = 0; i < kExpiryBytes; ++i) expiry = expiry << 8 | static_cast<unsigned char>(bytes[i]);
  return static_cast<int64_t>(expiry);
}

// HKDF-SHA256 (RFC 5869): the cipher's key and nonce for one salt.
std::string DeriveKey(std::string_view key, std::string_view salt) {
  const std::unique_ptr<EVP_KDF, Freed<EVP_KDF_free>> hkdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr));
  KINORA_CHECK(hkdf != nullptr) << "OpenSSL has no HKDF";
  const std::unique_ptr<EVP_KDF_CTX, Freed<EVP_KDF_CTX_free>> context(EVP_KDF_CTX_new(hkdf.get()));
  const auto octets = [](const char* name, std::string_view bytes) {
    return OSSL_PARAM_construct_octet_string(name, const_cast<char*>(bytes.data()), bytes.size());
  };
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
                                   octets(OSSL_KDF_PARAM_KEY, key), octets(OSSL_KDF_PARAM_SALT, salt),
                                   octets(OSSL_KDF_PARAM_INFO, kPurpose), OSSL_PARAM_construct_end()};
  std::string derived(kCipherKeyBytes + kNonceBytes, '\0');
  KINORA_CHECK(EVP_KDF_derive(context.get(), Bytes(derived), derived.size(), parameters) == 1);
  return derived;
}

// AES-256-GCM in one direction, for one text.
class Cipher {
 public:
  Cipher(const std::string& derived, const LinkTarget& target, bool encrypt) : context_(EVP_CIPHER_CTX_new()) {
    const unsigned char* key = Bytes(std::string_view(derived));
    KINORA_CHECK(EVP_CipherInit_ex2(context_.get(), EVP_aes_256_gcm(), key, key + kCipherKeyBytes, encrypt, nullptr) ==
                 1);
    // Neither may contain a NUL, so two targets never give the same bytes.
    const std::string bound = absl::StrCat(target.video_id, absl::string_view("\0", 1), target.variant);
    int size = 0;
    KINORA_CHECK(EVP_CipherUpdate(context_.get(), nullptr, &size, Bytes(std::string_view(bound)),
                                  static_cast<int>(bound.size())) == 1);
  }

  std::string Run(std::string_view input) {
    std::string output(input.size(), '\0');
    int size = 0;
    KINORA_CHECK(EVP_CipherUpdate(context_.get(), Bytes(output), &size, Bytes(input), static_cast<int>(input.size())) ==
                 1);
    return output;
  }

  std::string Tag() {
    std::string tag(kTagBytes, '\0');
    KINORA_CHECK(Finish());
    KINORA_CHECK(EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes, tag.data()) == 1);
    return tag;
  }
  bool HasTag(std::string tag) {
    KINORA_CHECK(EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes, tag.data()) == 1);
    return Finish();
  }

 private:
  bool Finish() {
    unsigned char none[16];
    int size = 0;
    return EVP_CipherFinal_ex(context_.get(), none, &size) == 1;
  }

  const std::unique_ptr<EVP_CIPHER_CTX, Freed<EVP_CIPHER_CTX_free>> context_;
};

// Returns the text that was sealed; nullopt if it is not authentic.
std::optional<std::string> Decrypt(std::string_view key, std::string_view text, const LinkTarget& target) {
  std::string sealed;
  if (text.size() > kLongestLink) return std::nullopt;
  if (!absl::WebSafeBase64Unescape(absl::string_view(text.data(), text.size()), &sealed)) return std::nullopt;
  if (absl::WebSafeBase64Escape(sealed) != absl::string_view(text.data(), text.size())) return std::nullopt;
  if (sealed.size() < kSaltBytes + kExpiryBytes + kTagBytes) return std::nullopt;
  const std::string_view view = sealed;
  Cipher cipher(DeriveKey(key, view.substr(0, kSaltBytes)), target, /*encrypt=*/false);
  std::string plain = cipher.Run(view.substr(kSaltBytes, sealed.size() - kSaltBytes - kTagBytes));
  if (!cipher.HasTag(std::string(view.substr(sealed.size() - kTagBytes)))) return std::nullopt;
  return plain;
}

absl::Status Rejected(const char* reason, const char* message, const LinkTarget& target) {
  return WithErrorInfo(
      absl::UnauthenticatedError(absl::StrCat(message, "; POST /v1/videos/", target.video_id, "/link makes a new one")),
      reason);
}

}  // namespace

LinkSealer::LinkSealer(std::string key, Clock& clock) : key_(std::move(key)), clock_(clock) {
  KINORA_CHECK(key_.size() >= kKeyBytes);
}

VideoLink LinkSealer::Seal(const LinkTarget& target, std::string_view authorization) const {
  const int64_t expiry = absl::ToUnixSeconds(clock_.Now() + kLinkLifetime);
  std::string sealed = DrawSecret();  // the salt
  Cipher cipher(DeriveKey(key_, sealed), target, /*encrypt=*/true);
  sealed += cipher.Run(Encode(expiry) + std::string(authorization));
  sealed += cipher.Tag();
  return {.text = absl::WebSafeBase64Escape(sealed), .expiry = absl::FromUnixSeconds(expiry)};
}

absl::StatusOr<std::string> LinkSealer::Open(std::string_view text, const LinkTarget& target) const {
  const std::optional<std::string> plain = Decrypt(key_, text, target);
  if (!plain) {
    return Rejected("LINK_INVALID", "the link is damaged, for another clip, or of another server or an earlier run",
                    target);
  }
  if (clock_.Now() >= absl::FromUnixSeconds(DecodeExpiry(*plain))) {
    return Rejected("LINK_EXPIRED", "the link has expired", target);
  }
  return plain->substr(kExpiryBytes);
}

absl::StatusOr<std::string> LoadLinkKey(const std::string& path) {
  if (path.empty()) return DrawSecret();
  KINORA_ASSIGN_OR_RETURN(const RegularFile file, ReadRegularFile(path));
  if ((file.mode & 0007) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": every user of this machine can read the key; run chmod o= on it"));
  }
  if (file.bytes.size() < LinkSealer::kKeyBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": has fewer than ", LinkSealer::kKeyBytes,
                                                   " bytes; fill it with: openssl rand -base64 48"));
  }
  return file.bytes;
}

}  // namespace kinora
