// Well-formed UTF-8 (RFC 3629, Unicode table 3-7): no surrogates, nothing overlong, at most U+10FFFF.
#ifndef KINORA_ENGINE_BASE_UTF8_H_
#define KINORA_ENGINE_BASE_UTF8_H_

#include <cstdint>
#include <string_view>

namespace kinora {

// Returns the offset of the first byte that is not part of well-formed UTF-8; -1 if there is none.
int64_t FindInvalidUtf8(std::string_view text);

}  // namespace kinora

#endif  // KINORA_ENGINE_BASE_UTF8_H_
