// Parses JSON from untrusted files: limited in size and depth, without exceptions. Only for .cc files of engine/weights
// and of the configuration reader, so that no other header exposes nlohmann's type.
#ifndef KINORA_ENGINE_WEIGHTS_JSON_TEXT_H_
#define KINORA_ENGINE_WEIGHTS_JSON_TEXT_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace kinora {

// The tree of this much JSON stays below 400 MB; real files are below 1 MB.
inline constexpr int64_t kMaxJsonBytes = int64_t{16} << 20;
inline constexpr int kMaxJsonDepth = 32;  // configurations nest to 6

// Fails with InvalidArgument, beginning with `what` (a file, "config of FILE"), if the text is too long, nested too
// deep or not JSON.
absl::StatusOr<nlohmann::json> ParseJsonText(std::string_view text, std::string_view what);

// Returns the whole file. Fails with NotFound or InvalidArgument naming it.
absl::StatusOr<std::string> ReadTextFile(const std::string& path, int64_t max_bytes = kMaxJsonBytes);

}  // namespace kinora

#endif  // KINORA_ENGINE_WEIGHTS_JSON_TEXT_H_
