// A tokenizer.json of arbitrary bytes: an error, or a tokenizer that encodes any text. The text is everything after the
// last 0xFF 0x00 pair (which no JSON contains); without a pair it is a fixed text.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/base/check.h"
#include "engine/text/tokenizer.h"

constexpr int64_t kRows = 1024;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view json(reinterpret_cast<const char*>(data), size);
  std::string_view text = "a red  fox\n\n<bos>\t狐 \x01";
  if (const size_t at = json.rfind(std::string_view("\xff\x00", 2)); at != std::string_view::npos) {
    text = json.substr(at + 2);
    json = json.substr(0, at);
  }
  const auto tokenizer = kinora::Tokenizer::FromJson(json);
  if (!tokenizer.ok()) return 0;
  const auto ids = (*tokenizer)->Encode(kinora::StripWhiteSpace(text), kRows);
  if (!ids.ok()) return 0;  // not UTF-8
  KINORA_CHECK(!ids->empty() && static_cast<int64_t>(ids->size()) <= kRows);
  for (int32_t id : *ids) KINORA_CHECK(0 <= id && id < (*tokenizer)->vocabulary()) << id;
  return 0;
}
