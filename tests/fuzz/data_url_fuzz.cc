// A data: URL: its data is what another encoding of the same data gives, and is never longer than the URL.
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "server/gateway/data_url.h"

namespace kinora {
namespace {

void CheckSame(const DataUrl& url, const std::string& text) {
  const absl::StatusOr<DataUrl> again = ParseDataUrl(text);
  KINORA_CHECK(again.ok()) << text;
  KINORA_CHECK(again->media_type == url.media_type && again->bytes == url.bytes) << text;
}

}  // namespace
}  // namespace kinora

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kinora;  // NOLINT: one function
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<DataUrl> url = ParseDataUrl(text);
  if (!url.ok()) {
    KINORA_CHECK(absl::IsInvalidArgument(url.status()) && url.status().message().size() < 200);
    return 0;
  }
  KINORA_CHECK(IsDataUrl(text));
  KINORA_CHECK(!url->bytes.empty() && url->bytes.size() < size);
  CheckSame(*url, absl::StrCat("data:", url->media_type, ";base64,", absl::Base64Escape(url->bytes)));
  std::string escaped;
  for (const char c : url->bytes) absl::StrAppend(&escaped, "%", absl::Hex(static_cast<uint8_t>(c), absl::kZeroPad2));
  CheckSame(*url, absl::StrCat("data:", url->media_type, ",", escaped));
  return 0;
}
