// Secrets that only a supervisor and the processes that it started share.
#ifndef KINORA_SERVER_COMMON_SECRET_H_
#define KINORA_SERVER_COMMON_SECRET_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace kinora {

inline constexpr size_t kSecretBytes = 32;

// Returns kSecretBytes random bytes from the kernel.
std::string DrawSecret();

// Returns a random name for an incarnation of a group: 16 hexadecimal digits, not secret.
std::string DrawIncarnation();

// Takes a time that does not depend on the bytes. It may reveal whether the lengths differ.
bool SameSecret(std::string_view a, std::string_view b);

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_SECRET_H_
