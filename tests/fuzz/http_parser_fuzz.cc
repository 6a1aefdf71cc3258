// Requests of one connection: whether their bytes come at once or in pieces, the heads and bodies are the same, up to
// the first problem; and what is made of a head never fails.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "server/gateway/byte_range.h"
#include "server/gateway/client_address.h"
#include "server/gateway/http_parser.h"
#include "server/gateway/origin_check.h"

namespace kinora {
namespace {

void Use(const HttpRequestHead& head) {
  static const OriginCheck* const check = new OriginCheck(*OriginCheck::Make({"a"}));
  (void)check->Check(head, "127.0.0.1");
  (void)ParseQuery(head.query);
  static const TrustedProxies* const proxies = new TrustedProxies(*TrustedProxies::Parse({"127.0.0.0/8"}));
  static const SocketAddress* const peer = new SocketAddress(ResolveListenAddress("127.0.0.1:1")->front());
  KINORA_CHECK(!proxies->ClientOf(*peer, head.fields).empty());
  const std::string* range = head.Find("range");
  const ByteRange part = ParseByteRange(range == nullptr ? "" : *range, 1000);
  KINORA_CHECK(part.first >= 0 && part.first <= part.last && part.last < 1000);
  KINORA_CHECK(head.path[0] == '/');
  KINORA_CHECK(head.has_body || head.content_length == uint64_t{0});
}

// Returns the heads and bodies, as text.
std::string Parse(std::string_view bytes, size_t step) {
  HttpParser parser({.head_bytes = 1000, .fields = 10, .body_bytes = 2000});
  std::string input, text;
  bool in_body = false;
  while (!bytes.empty() || !input.empty()) {
    const size_t count = std::min(step, bytes.size());
    input.append(bytes.substr(0, count));
    bytes.remove_prefix(count);
    auto result = HttpParser::Result::kReady;
    while (result == HttpParser::Result::kReady) {
      if (in_body) {
        result = parser.ReadBody(input, 100, text);
        if (!parser.body_ended()) continue;
        parser.NextRequest();
        in_body = false;
        continue;
      }
      result = parser.ReadHead(input);
      if (result != HttpParser::Result::kReady) continue;
      in_body = true;
      Use(parser.head());
      absl::StrAppend(&text, "\n", parser.head().method, " ", parser.head().path, "?", parser.head().query, "\n");
      for (const HttpField& field : parser.head().fields) absl::StrAppend(&text, field.name, ":", field.value, "\n");
    }
    if (result == HttpParser::Result::kProblem) {
      KINORA_CHECK(parser.problem().status >= 400 && !parser.problem().message.empty());
      return text;
    }
    if (bytes.empty()) return text;
  }
  return text;
}

}  // namespace
}  // namespace kinora

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string whole = kinora::Parse(bytes, size);
  const std::string pieces = kinora::Parse(bytes, 1 + data[0] % 64);
  KINORA_CHECK(whole.compare(0, pieces.size(), pieces) == 0 || pieces.compare(0, whole.size(), whole) == 0);
  return 0;
}
