#include "server/net/http_pages.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "server/common/metrics.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

int Connect(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const timeval patience{.tv_sec = 15, .tv_usec = 0};
  EXPECT_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

std::string Fetch(int port, const std::string& request_line) {
  const int fd = Connect(port);
  const std::string request = absl::StrCat(request_line, " HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  std::string reply;
  char buffer[4096];
  for (ssize_t n; (n = read(fd, buffer, sizeof(buffer))) > 0;) reply.append(buffer, n);
  close(fd);
  return reply;
}

TEST(HttpPages, ServeMetricsLivenessAndReadiness) {
  MetricsPage page;
  FrontendMetrics metrics(page.registry());
  metrics.requests_total.Add({{"model", "m"}, {"recipe", "ONE_STAGE"}, {"code", "OK"}}).Increment(3);
  absl::Status ready = absl::UnavailableError("no worker group is ready");
  KINORA_ASSERT_OK_AND_ASSIGN(auto pages, HttpPages::Start({.address = "127.0.0.1:0",
                                                            .metrics = [&] { return page.Text(); },
                                                            .live = [] { return absl::OkStatus(); },
                                                            .ready = [&] { return ready; }}));
  ASSERT_GT(pages->port(), 0);
  EXPECT_THAT(Fetch(pages->port(), "GET /metrics"),
              HasSubstr("kinora_requests_total{code=\"OK\",model=\"m\",recipe=\"ONE_STAGE\"} 3"));
  EXPECT_THAT(Fetch(pages->port(), "GET /livez"), StartsWith("HTTP/1.1 200"));
  const std::string reply = Fetch(pages->port(), "GET /readyz");
  EXPECT_THAT(reply, StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(reply, HasSubstr("no worker group is ready"));
  ready = absl::OkStatus();
  EXPECT_THAT(Fetch(pages->port(), "GET /readyz"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Fetch(pages->port(), "POST /metrics"), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(Fetch(pages->port(), "GET /etc/passwd"), StartsWith("HTTP/1.1 404"));
}

TEST(HttpPages, TheFirstPageSaysWhoseItIsAndLinksTheOthers) {
  const auto nothing = [] { return absl::OkStatus(); };
  KINORA_ASSERT_OK_AND_ASSIGN(auto pages, HttpPages::Start({.title = "kinora-worker, group <b>&, rank 1",
                                                            .address = "127.0.0.1:0",
                                                            .metrics = [] { return std::string("page\n"); },
                                                            .live = nothing,
                                                            .ready = nothing}));
  const std::string page = Fetch(pages->port(), "GET /");
  EXPECT_THAT(page, AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("Content-Type: text/html"),
                          HasSubstr("<h1>kinora-worker, group &lt;b&gt;&amp;, rank 1</h1>"),
                          // The page explains what a status means; it does not report one.
                          HasSubstr("</a>, whether this process is alive: 200, or 503 if"),
                          HasSubstr("</a>, whether it takes jobs: 200, or 503 with")));
  for (const char* path : {"/metrics", "/livez", "/readyz"}) {
    EXPECT_THAT(page, HasSubstr(absl::StrCat("<a href=\"", path, "\">")));
    EXPECT_THAT(Fetch(pages->port(), absl::StrCat("GET ", path)), StartsWith("HTTP/1.1 200"));
  }
}

// Silent connections, half requests and endless bodies must not delay the answer to a liveness probe.
TEST(HttpPages, AnswerBehindManyConnectionsThatHang) {
  const auto nothing = [] { return absl::OkStatus(); };
  KINORA_ASSERT_OK_AND_ASSIGN(auto pages, HttpPages::Start({.address = "127.0.0.1:0",
                                                            .metrics = [] { return std::string("page\n"); },
                                                            .live = nothing,
                                                            .ready = nothing}));
  const std::string starts[] = {"", "GET /metr", "POST /livez HTTP/1.1\r\nContent-Length: 1000000\r\n\r\nx"};
  std::vector<int> hanging;
  for (int i = 0; i < 300; ++i) {
    hanging.push_back(Connect(pages->port()));
    const std::string& start = starts[i % 3];
    // The pages may already have closed it to make room.
    (void)send(hanging.back(), start.data(), start.size(), MSG_NOSIGNAL);
  }
  EXPECT_THAT(Fetch(pages->port(), "GET /livez"), StartsWith("HTTP/1.1 200"));
  for (const int fd : hanging) close(fd);
}

TEST(HttpPages, RefuseBodiesAndLongHeads) {
  const auto nothing = [] { return absl::OkStatus(); };
  KINORA_ASSERT_OK_AND_ASSIGN(auto pages, HttpPages::Start({.address = "127.0.0.1:0",
                                                            .metrics = [] { return std::string("page\n"); },
                                                            .live = nothing,
                                                            .ready = nothing}));
  const int port = pages->port();
  for (const char* field : {"Content-Length: 5", "content-length:5", "Transfer-Encoding: chunked"}) {
    EXPECT_THAT(Fetch(port, absl::StrCat("GET /livez HTTP/1.1\r\n", field, "\r\nx: ")), StartsWith("HTTP/1.1 413"));
  }
  EXPECT_THAT(Fetch(port, "GET /livez HTTP/1.1\r\nContent-Length: 0\r\nx:"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Fetch(port, absl::StrCat("GET /livez?", std::string(9000, 'x'))), StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(Fetch(port, "GET /livez?probe=1"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Fetch(port, "nonsense"), StartsWith("HTTP/1.1 400"));
}

// A page larger than the kernel's send buffer arrives completely.
TEST(HttpPages, SendALongPageWhole) {
  std::string page(8 << 20, 'm');
  const auto nothing = [] { return absl::OkStatus(); };
  KINORA_ASSERT_OK_AND_ASSIGN(
      auto pages,
      HttpPages::Start({.address = "127.0.0.1:0", .metrics = [&] { return page; }, .live = nothing, .ready = nothing}));
  EXPECT_THAT(Fetch(pages->port(), "GET /metrics"), testing::EndsWith("\r\n\r\n" + page));
}

TEST(HttpPages, APortInUseIsAnErrorThatNamesTheField) {
  const auto nothing = [] { return absl::OkStatus(); };
  const auto text = [] { return std::string(); };
  KINORA_ASSERT_OK_AND_ASSIGN(
      auto first, HttpPages::Start({.address = "127.0.0.1:0", .metrics = text, .live = nothing, .ready = nothing}));
  EXPECT_THAT(
      HttpPages::Start(
          {.address = absl::StrCat("127.0.0.1:", first->port()), .metrics = text, .live = nothing, .ready = nothing}),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("http_address")));
}

}  // namespace
}  // namespace kinora
