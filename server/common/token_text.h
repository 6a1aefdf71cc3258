// Bearer tokens in a file, one per line. Blanks around a token, blank lines, lines that begin with '#' and a UTF-8 byte
// order mark are ignored.
#ifndef KINORA_SERVER_COMMON_TOKEN_TEXT_H_
#define KINORA_SERVER_COMMON_TOKEN_TEXT_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kinora {

// InvalidArgument if a token contains a character that is not printable ASCII, as in every UTF-16 file. The message
// contains none of the text.
absl::StatusOr<std::vector<std::string>> ParseTokens(std::string_view text);

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_TOKEN_TEXT_H_
