// The search for words in prompts (ListVideosRequest.text).
#ifndef KINORA_SERVER_FRONTEND_JOBS_PROMPT_WORDS_H_
#define KINORA_SERVER_FRONTEND_JOBS_PROMPT_WORDS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kinora {

// Limits of a search, which reads up to 1000 prompts of 16 KiB.
inline constexpr size_t kMaxSearchBytes = 1000, kMaxSearchWords = 16;

// Splits `text` at ASCII white space into words with ASCII letters in lower case. InvalidArgument, naming `text`, above
// the limits.
absl::StatusOr<std::vector<std::string>> SearchWords(std::string_view text);

// Whether `prompt` contains each of `words`, as returned by SearchWords. ASCII letters match in either case, other
// characters byte by byte.
bool HasWords(std::string_view prompt, const std::vector<std::string>& words);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_PROMPT_WORDS_H_
