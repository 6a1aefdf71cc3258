// What a supervisor and the processes that it started know, and nobody else.
#ifndef KINORA_SERVER_COMMON_SECRET_H_
#define KINORA_SERVER_COMMON_SECRET_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace kinora {

inline constexpr size_t kSecretBytes = 32;

// kSecretBytes of the kernel's random numbers.
std::string DrawSecret();

// The name of an incarnation of a group: 16 hexadecimal digits, no secret.
std::string DrawIncarnation();

// Takes as long whatever the bytes are; that the lengths differ may show.
bool SameSecret(std::string_view a, std::string_view b);

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_SECRET_H_
