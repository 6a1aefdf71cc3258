// Cat(...) is absl::StrCat that also accepts std::string_view: Debian's Abseil is built for C++14, so its StrCat
// accepts only absl::string_view, a separate type.
#ifndef KINORA_ENGINE_BASE_STRINGS_H_
#define KINORA_ENGINE_BASE_STRINGS_H_

#include <string>
#include <string_view>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace kinora {

inline absl::string_view AbslView(std::string_view text) { return absl::string_view(text.data(), text.size()); }

namespace internal {
template <typename T>
decltype(auto) ForStrCat(const T& value) {
  if constexpr (std::is_same_v<T, std::string_view>) {
    return AbslView(value);
  } else {
    return (value);
  }
}
}  // namespace internal

template <typename... Parts>
std::string Cat(const Parts&... parts) {
  return absl::StrCat(internal::ForStrCat(parts)...);
}

}  // namespace kinora

#endif  // KINORA_ENGINE_BASE_STRINGS_H_
