#include "server/gateway/page_handler.h"

#include <cstddef>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/common/sha256.h"
#include "server/gateway/byte_range.h"

namespace kinora {

extern const unsigned char kIndexHtml[], kPageCss[], kPageJs[];  // the files of page/, which the build embeds
extern const size_t kIndexHtmlSize, kPageCssSize, kPageJsSize;

namespace {

// Only files of this origin; blob: for previews and for pictures before they are uploaded, data: for the icon.
constexpr char kPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
constexpr size_t kETagDigits = 32;  // 128 bits of the SHA-256

Route FileRoute(const char* path, const char* type, std::string_view content) {
  const std::string etag = absl::StrCat("\"", Sha256Hex(content).substr(0, kETagDigits), "\"");
  HttpReply file = {.status = 200,
                    .fields = {{"Content-Type", absl::StrCat(type, "; charset=utf-8")},
                               {"ETag", etag},
                               {"Cache-Control", "no-cache"},
                               {"Content-Security-Policy", kPolicy}},
                    .body = std::string(content)};
  const auto send = [etag, file = std::move(file)](const RoutedRequest& request) {
    HttpReply reply = file;
    const std::string* known = request.exchange->head().Find("if-none-match");
    if (known != nullptr && NamesETag(*known, etag)) {
      reply.status = 304;
      reply.body.clear();
    }
    request.exchange->Reply(std::move(reply));
  };
  return {"GET", path, {}, send};
}

std::string_view Text(const unsigned char* bytes, size_t size) { return {reinterpret_cast<const char*>(bytes), size}; }

}  // namespace

std::vector<Route> PageRoutes() {
  const auto no_icon = [](const RoutedRequest& request) { request.exchange->Reply({.status = 204}); };
  return {FileRoute("/", "text/html", Text(kIndexHtml, kIndexHtmlSize)),
          FileRoute("/page.css", "text/css", Text(kPageCss, kPageCssSize)),
          FileRoute("/page.js", "text/javascript", Text(kPageJs, kPageJsSize)),
          {"GET", "/favicon.ico", {}, no_icon}};
}

}  // namespace kinora
