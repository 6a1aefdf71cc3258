// A tokenizer.model of any bytes: refused with a status, or a tokenizer that encodes any text. The bytes after the last
// 0xFF 0x00 pair (no protobuf of ours has one) are the text; without a pair a fixed text is used.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/base/check.h"
#include "engine/model/tokenizer.h"

constexpr int64_t kRows = 1024;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view model(reinterpret_cast<const char*>(data), size);
  std::string_view text = "a red  fox\n\n<bos>\t狐 \x01";
  if (const size_t at = model.rfind(std::string_view("\xff\x00", 2)); at != std::string_view::npos) {
    text = model.substr(at + 2);
    model = model.substr(0, at);
  }
  const auto tokenizer = kinora::Tokenizer::FromModel(model);
  if (!tokenizer.ok()) return 0;
  const auto ids = (*tokenizer)->Encode(kinora::StripWhiteSpace(text), kRows);
  if (!ids.ok()) return 0;  // not UTF-8
  KINORA_CHECK(!ids->empty() && static_cast<int64_t>(ids->size()) <= kRows);
  for (int32_t id : *ids) KINORA_CHECK(0 <= id && id < (*tokenizer)->vocabulary()) << id;
  return 0;
}
