#include "server/gateway/page_handler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <regex>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/gateway/http_server.h"
#include "tests/server/gateway/http_connection.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class PageHandlerTest : public testing::Test {
 protected:
  PageHandlerTest() {
    auto server = HttpServer::Start(
        {.address = "127.0.0.1:0",
         .handler = [this](std::shared_ptr<HttpExchange> exchange) { router_.Handle(std::move(exchange)); },
         .problem_reply = ProblemReply,
         .metrics = metrics_});
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  std::string Send(const std::string& method, const std::string& path, const std::string& fields = "") {
    HttpConnection connection(server_->port());
    connection.Send(absl::StrCat(method, " ", path, " HTTP/1.1\r\nHost: localhost\r\n", fields, "\r\n"));
    return connection.ReadReply(method == "HEAD");
  }
  std::string Get(const std::string& path, const std::string& fields = "") { return Send("GET", path, fields); }

  static std::string Field(const std::string& reply, const std::string& name) {
    std::smatch match;
    return std::regex_search(reply, match, std::regex("\r\n" + name + ": ([^\r]*)\r\n")) ? match.str(1) : "";
  }
  static std::string Body(const std::string& reply) { return reply.substr(reply.find("\r\n\r\n") + 4); }

  const Router router_{PageRoutes()};

 private:
  prometheus::Registry registry_;
  GatewayMetrics metrics_{registry_};
  std::unique_ptr<HttpServer> server_;
};

TEST_F(PageHandlerTest, ServesEachFileWithItsType) {
  const std::string html = Get("/"), css = Get("/page.css"), js = Get("/page.js");
  EXPECT_THAT(html, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_EQ(Field(html, "Content-Type"), "text/html; charset=utf-8");
  EXPECT_EQ(Field(css, "Content-Type"), "text/css; charset=utf-8");
  EXPECT_EQ(Field(js, "Content-Type"), "text/javascript; charset=utf-8");
  EXPECT_THAT(Body(html), AllOf(StartsWith("<!doctype html>"), EndsWith("</html>\n")));
  EXPECT_THAT(Body(html), AllOf(HasSubstr("page.css"), HasSubstr("page.js")));
  EXPECT_THAT(Body(css), AllOf(HasSubstr("{"), EndsWith("}\n")));
  EXPECT_FALSE(Body(js).empty());
}

TEST_F(PageHandlerTest, ThePolicyAllowsNothingOfOtherOrigins) {
  for (const char* path : {"/", "/page.css", "/page.js"}) {
    const std::string reply = Get(path);
    EXPECT_EQ(Field(reply, "Content-Security-Policy"),
              "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; media-src 'self' "
              "blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    EXPECT_EQ(Field(reply, "X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(Field(reply, "Referrer-Policy"), "no-referrer");
    EXPECT_EQ(Field(reply, "Cross-Origin-Opener-Policy"), "same-origin");
    EXPECT_EQ(Field(reply, "Cross-Origin-Resource-Policy"), "same-origin");
    EXPECT_EQ(Field(reply, "Cache-Control"), "no-cache");
  }
}

// What the policy would block, so that the page never fails by it.
TEST_F(PageHandlerTest, ThePageHasNoInlineScriptsOrStylesAndNoForeignAddresses) {
  const std::string html = Body(Get("/"));
  EXPECT_FALSE(std::regex_search(html, std::regex("<script(?![^>]* src=)", std::regex::icase)));
  EXPECT_FALSE(std::regex_search(html, std::regex("<style|\\sstyle=|\\son[a-z]+=", std::regex::icase)));
  EXPECT_FALSE(std::regex_search(html, std::regex("(src|href)=\"?(https?:)?//", std::regex::icase)));
  EXPECT_THAT(Body(Get("/page.css")), Not(HasSubstr("@import")));
  EXPECT_FALSE(std::regex_search(Body(Get("/page.css")), std::regex("url\\(['\"]?(https?:)?//", std::regex::icase)));
}

TEST_F(PageHandlerTest, ABrowserThatHasAFileGetsNoneAgain) {
  std::set<std::string> etags;
  for (const char* path : {"/", "/page.css", "/page.js"}) {
    const std::string etag = Field(Get(path), "ETag");
    EXPECT_TRUE(std::regex_match(etag, std::regex("\"[0-9a-f]{32}\""))) << etag;
    etags.insert(etag);
    const std::string again = Get(path, absl::StrCat("If-None-Match: \"other\", ", etag, "\r\n"));
    EXPECT_THAT(again, AllOf(StartsWith("HTTP/1.1 304 Not Modified\r\n"), EndsWith("\r\n\r\n")));
    EXPECT_EQ(Field(again, "ETag"), etag);
    EXPECT_THAT(Get(path, "If-None-Match: \"other\"\r\n"), StartsWith("HTTP/1.1 200 OK\r\n"));
  }
  EXPECT_EQ(etags.size(), 3u);
}

TEST_F(PageHandlerTest, AnswersHeadAndForTheIcon) {
  const std::string whole = Get("/"), head = Send("HEAD", "/");
  EXPECT_THAT(head, AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), EndsWith("\r\n\r\n")));
  EXPECT_EQ(Field(head, "Content-Length"), Field(whole, "Content-Length"));
  EXPECT_THAT(Get("/favicon.ico"), StartsWith("HTTP/1.1 204 No Content\r\n"));
  EXPECT_THAT(Send("POST", "/", "Content-Length: 0\r\n"), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(Get("/page/index.html"), StartsWith("HTTP/1.1 404 "));
}

}  // namespace
}  // namespace kinora
