#include "server/common/http_pages.h"

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
  EXPECT_THAT(Fetch(pages->port(), "GET /"), StartsWith("HTTP/1.1 404"));
}

// Connections that say nothing, or half a request, must not keep a liveness probe from its answer.
TEST(HttpPages, AnswerBehindManyConnectionsThatHang) {
  const auto nothing = [] { return absl::OkStatus(); };
  KINORA_ASSERT_OK_AND_ASSIGN(auto pages, HttpPages::Start({.address = "127.0.0.1:0",
                                                            .metrics = [] { return std::string("page\n"); },
                                                            .live = nothing,
                                                            .ready = nothing}));
  std::vector<int> hanging;
  for (int i = 0; i < 40; ++i) {
    hanging.push_back(Connect(pages->port()));
    if (i % 2 == 0) {
      EXPECT_EQ(write(hanging.back(), "GET /metr", 9), 9);
    }
  }
  EXPECT_THAT(Fetch(pages->port(), "GET /livez"), StartsWith("HTTP/1.1 200"));
  for (const int fd : hanging) close(fd);
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
