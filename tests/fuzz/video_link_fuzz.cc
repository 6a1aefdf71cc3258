// A link that a stranger wrote, as the rest of an input whose first line is a variant: it opens nothing. The same bytes
// sealed as an authorization open again, for their own target alone.
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "server/gateway/video_link.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using kinora::LinkSealer, kinora::LinkTarget;
  static const LinkSealer* const sealer = new LinkSealer(std::string(32, 'k'), kinora::Clock::Real());
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t line = bytes.substr(0, bytes.find('\n')).size();
  const LinkTarget target = {.video_id = "a", .variant = std::string(bytes.substr(0, line))};
  const std::string_view rest = bytes.substr(line == size ? size : line + 1);
  KINORA_CHECK(!sealer->Open(rest, target).ok());
  const std::string text = sealer->Seal(target, rest).text;
  const auto opened = sealer->Open(text, target);
  KINORA_CHECK(opened.ok() && *opened == rest);
  KINORA_CHECK(!sealer->Open(text, {.video_id = "b", .variant = target.variant}).ok());
  KINORA_CHECK(!sealer->Open(text + "A", target).ok());
  return 0;
}
