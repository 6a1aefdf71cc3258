// A URL and, after a line break, an allowed host. libcurl connects to the same host and port as the rules have checked.
#include <curl/curl.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "engine/base/check.h"
#include "server/gateway/input_url.h"

namespace kinora {
namespace {

std::string Part(CURLU* url, CURLUPart part) {
  char* text = nullptr;
  KINORA_CHECK(curl_url_get(url, part, &text, CURLU_DEFAULT_PORT) == CURLUE_OK) << part;
  std::string copy = text;
  curl_free(text);
  return copy;
}

}  // namespace
}  // namespace kinora

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kinora;  // NOLINT: one function
  const std::string text(reinterpret_cast<const char*>(data), size);
  const size_t line = std::min(text.find('\n'), size);
  const absl::StatusOr<AllowedHost> host = ParseAllowedHost(text.substr(std::min(line + 1, size)));
  const std::vector<AllowedHost> hosts = host.ok() ? std::vector<AllowedHost>{*host} : std::vector<AllowedHost>{};
  const absl::StatusOr<AllowedUrl> allowed = CheckInputUrl(text.substr(0, line), hosts);
  if (!allowed.ok()) {
    KINORA_CHECK(absl::IsInvalidArgument(allowed.status()) && allowed.status().message().size() < 600);
    return 0;
  }
  const std::unique_ptr<CURLU, void (*)(CURLU*)> url(curl_url(), curl_url_cleanup);
  if (curl_url_set(url.get(), CURLUPART_URL, allowed->url.text.c_str(), 0) != CURLUE_OK) return 0;  // not fetched
  const std::string& name = allowed->host.name;
  const std::string curls = absl::AsciiStrToLower(Part(url.get(), CURLUPART_HOST));
  // libcurl writes addresses in another way, such as 1.2.3.4 for 0x01020304; those are not names of an operator.
  KINORA_CHECK(curls == allowed->url.host || !absl::StrContains(curls, "example")) << curls;
  KINORA_CHECK(allowed->host.subdomains ? absl::EndsWith(allowed->url.host, "." + name) : allowed->url.host == name);
  KINORA_CHECK(std::atoi(Part(url.get(), CURLUPART_PORT).c_str()) == allowed->url.port);
  KINORA_CHECK(Part(url.get(), CURLUPART_SCHEME) == "https");
  char* user = nullptr;
  KINORA_CHECK(curl_url_get(url.get(), CURLUPART_USER, &user, 0) == CURLUE_NO_USER);
  return 0;
}
