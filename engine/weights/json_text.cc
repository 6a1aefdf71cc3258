#include "engine/weights/json_text.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "engine/base/status_macros.h"
#include "engine/base/strings.h"

namespace kinora {
namespace {

// Deepest nesting of brackets outside strings: an upper bound of the document's depth, found before a tree is built.
int Depth(std::string_view text) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

absl::StatusOr<nlohmann::json> ParseJsonText(std::string_view text, std::string_view what) {
  if (static_cast<int64_t>(text.size()) > kMaxJsonBytes) {
    return absl::InvalidArgumentError(Cat(what, ": JSON of ", text.size(), " bytes, at most ", kMaxJsonBytes));
  }
  if (Depth(text) > kMaxJsonDepth) {
    return absl::InvalidArgumentError(Cat(what, ": JSON nested deeper than ", kMaxJsonDepth));
  }
  nlohmann::json json = nlohmann::json::parse(text, /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::InvalidArgumentError(Cat(what, ": not valid JSON"));
  return json;
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path, int64_t max_bytes) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error) return absl::NotFoundError(Cat(path, ": ", error.message()));
  if (static_cast<int64_t>(size) > max_bytes) {
    return absl::InvalidArgumentError(Cat(path, ": ", size, " bytes, at most ", max_bytes));
  }
  std::ifstream in(path, std::ios::binary);
  std::string text(size, '\0');
  if (!in.read(text.data(), static_cast<std::streamsize>(size))) {
    return absl::InvalidArgumentError(Cat(path, ": cannot be read"));
  }
  return text;
}

}  // namespace kinora
