// The gateway as a whole, over HTTP, in front of frontends that do what a test says.
#include "server/gateway/gateway.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "server/common/status_details.h"
#include "tests/server/gateway/http_connection.h"
#include "tests/server/gateway/scripted_frontend.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using Json = nlohmann::json;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class GatewayTest : public testing::Test {
 protected:
  GatewayFlags Flags(const std::vector<std::string>& frontends) {
    GatewayFlags flags;
    flags.address = "127.0.0.1:0";
    flags.frontends = frontends;
    flags.scratch_folder = scratch_.path();
    return flags;
  }
  void Start(const GatewayFlags& flags) {
    auto gateway = Gateway::Start(flags);
    ASSERT_TRUE(gateway.ok()) << gateway.status();
    gateway_ = *std::move(gateway);
  }
  void Start(const std::vector<std::string>& frontends) { Start(Flags(frontends)); }

  std::string Exchange(const std::string& method, const std::string& path, const std::string& body = "",
                       const std::string& fields = "") {
    HttpConnection connection(port());
    const std::string type = body.empty() ? "" : "Content-Type: application/json\r\n";
    connection.Send(absl::StrCat(method, " ", path, " HTTP/1.1\r\nHost: localhost\r\n", type, fields,
                                 "Content-Length: ", body.size(), "\r\n\r\n", body));
    return connection.ReadReply();
  }
  std::string Create(const std::string& fields = "") {
    return Exchange("POST", "/v1/videos", R"({"prompt": "a fox"})", fields);
  }
  static Json BodyOf(const std::string& reply) { return Json::parse(reply.substr(reply.find("\r\n\r\n") + 4)); }
  static std::string NoFrontend() {
    const TemporaryDirectory removed;
    return absl::StrCat("unix:", removed.File("api.sock"));
  }

  Gateway& gateway() { return *gateway_; }
  int port() const { return gateway_->port(); }

  TemporaryDirectory scratch_;
  ScriptedFrontend a_{"a"}, b_{"b"};

 private:
  std::unique_ptr<Gateway> gateway_;
};

TEST_F(GatewayTest, FrontendsTakeTurns) {
  Start({a_.address(), b_.address()});
  std::vector<std::string> ids(4);
  for (std::string& id : ids) id = BodyOf(Create())["id"];
  EXPECT_THAT(ids, ElementsAre("a-1", "b-1", "a-2", "b-2"));
}

TEST_F(GatewayTest, TheNextFrontendTakesWhatOneCannot) {
  const std::vector<std::pair<std::string, absl::Status>> reasons = {
      {"CreateVideo", absl::ResourceExhaustedError("the queue is full")},
      {"CreateVideo", WithErrorInfo(absl::UnavailableError("draining"), "DRAINING")},
      {"ListModels", absl::UnavailableError("starting")}};
  Start({a_.address(), b_.address()});
  for (const auto& [method, status] : reasons) {
    a_.Reject(method, status);
    for (int i = 0; i < 2; ++i) EXPECT_THAT(Create(), AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("\"b-"))) << status;
    a_.Reject(method, absl::OkStatus());
    a_.Reject("CreateVideo", absl::FailedPreconditionError("nothing else is tried"));
  }
}

TEST_F(GatewayTest, AFrontendThatIsDownIsPassedOver) {
  Start({NoFrontend(), b_.address()});
  for (int i = 0; i < 4; ++i) EXPECT_THAT(Create(), StartsWith("HTTP/1.1 200")) << i;
  EXPECT_THAT(Exchange("GET", "/v1/models"), AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("\"ltx\"")));
  EXPECT_THAT(Exchange("GET", "/v1/videos/b-1"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Exchange("GET", "/v1/videos/unknown"), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(Exchange("GET", "/v1/videos"), StartsWith("HTTP/1.1 503")) << "half a list would look complete";
}

TEST_F(GatewayTest, MetricsSayWhichFrontendIsConnected) {
  const std::string nobody = NoFrontend();
  Start({a_.address(), nobody});
  EXPECT_THAT(Exchange("GET", "/v1/models"), StartsWith("HTTP/1.1 200"));
  const auto line = [](const std::string& address, int connected) {
    return HasSubstr(absl::StrCat("\nkinora_http_frontend_connected{frontend=\"", address, "\"} ", connected, "\n"));
  };
  const std::string metrics = Exchange("GET", "/metrics");
  EXPECT_THAT(metrics, AllOf(line(a_.address(), 1), line(nobody, 0)));
  EXPECT_THAT(metrics, HasSubstr("\nkinora_http_rejected_total{reason=\"full\"} 0\n"));
}

TEST_F(GatewayTest, ReportsTheLastErrorIfNoFrontendTakesIt) {
  for (ScriptedFrontend* frontend : {&a_, &b_}) {
    frontend->Reject("CreateVideo", WithRetryInfo(absl::ResourceExhaustedError("the queue is full"), absl::Seconds(7)));
  }
  Start({a_.address(), b_.address()});
  EXPECT_THAT(Create(), AllOf(StartsWith("HTTP/1.1 429"), HasSubstr("Retry-After: 7\r\n")));
  EXPECT_THAT(a_.Calls(), Contains("CreateVideo"));
  EXPECT_THAT(b_.Calls(), Contains("CreateVideo"));
}

TEST_F(GatewayTest, AWrongRequestIsTriedOnce) {
  a_.Reject("CreateVideo", InvalidField("generation.width", "must be a multiple of 32"));
  Start({a_.address(), b_.address()});
  EXPECT_THAT(Create(), StartsWith("HTTP/1.1 422"));
  EXPECT_THAT(b_.Calls(), Not(Contains("CreateVideo")));
}

TEST_F(GatewayTest, AModelIsFoundAtTheFrontendThatServesIt) {
  b_.SetModel("other");
  Start({a_.address(), b_.address()});
  for (int i = 0; i < 2; ++i) {
    const std::string reply = Exchange("POST", "/v1/videos", R"({"prompt": "a fox", "model": "other"})");
    EXPECT_THAT(reply, AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("\"b-")));
  }
  EXPECT_THAT(Exchange("POST", "/v1/videos", R"({"prompt": "a fox", "model": "none"})"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(Exchange("GET", "/v1/models"), AllOf(HasSubstr("\"ltx\""), HasSubstr("\"other\"")));
}

TEST_F(GatewayTest, AnIdempotencyKeyLeadsToTheSameFrontend) {
  Start({a_.address(), b_.address()});
  std::set<char> frontends;
  for (int i = 0; i < 6; ++i) {
    frontends.insert(BodyOf(Create("Idempotency-Key: the-key\r\n"))["id"].get<std::string>()[0]);
  }
  EXPECT_EQ(frontends.size(), 1u);
}

TEST_F(GatewayTest, ListsAreMergedOverHttp) {
  a_.AddJob("a-old", 1);
  b_.AddJob("b-mid", 2);
  a_.AddJob("a-new", 3);
  Start({a_.address(), b_.address()});
  const Json first = BodyOf(Exchange("GET", "/v1/videos?limit=2"));
  EXPECT_EQ(first["first_id"], "a-new");
  EXPECT_EQ(first["last_id"], "b-mid");
  EXPECT_EQ(first["has_more"], true);
  const Json second = BodyOf(Exchange("GET", "/v1/videos?limit=2&after=b-mid"));
  EXPECT_EQ(second["data"].size(), 1u);
  EXPECT_EQ(second["last_id"], "a-old");
  EXPECT_EQ(second["has_more"], false);
}

TEST_F(GatewayTest, ABodyIsReadOnlyForSomeoneWithAToken) {
  a_.Reject("ListModels", absl::UnauthenticatedError("wrong token"));
  Start({a_.address()});
  const std::string reply = Exchange("POST", "/v1/videos", "", "Expect: 100-continue\r\n");
  EXPECT_THAT(reply, AllOf(StartsWith("HTTP/1.1 401"), HasSubstr("WWW-Authenticate: Bearer")));
  EXPECT_THAT(a_.Calls(), Not(Contains("CreateVideo")));
}

TEST_F(GatewayTest, AReplyLeavesTheSpaceOfItsUploadToTheNextRequest) {
  GatewayFlags flags = Flags({a_.address()});
  flags.max_scratch_bytes = 1000;
  Start(flags);
  const std::string picture = absl::StrCat("data:image/png,", std::string(1000, 'x'));
  const std::string body = Json({{"prompt", "a fox"}, {"input_reference", picture}}).dump();
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(Exchange("POST", "/v1/videos", body), StartsWith("HTTP/1.1 200")) << i;
  }
  EXPECT_THAT(a_.Calls(), Contains("UploadInput"));
}

TEST_F(GatewayTest, AStopEndsTheEventsOfAJobThatGoesOnAndWaitsForTheLastOneOfAJobThatHasEnded) {
  for (const bool ends : {false, true}) {
    a_.AddJob("job", 1);
    Start({a_.address()});
    HttpConnection events(port());
    events.Send("GET /v1/videos/job/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    ASSERT_TRUE(events.ReadUntil("event: snapshot\n"));
    if (ends) a_.EndJobQuietly("job");
    std::thread stop([this] { gateway().Drain(); });
    const std::string rest = events.ReadAll();
    EXPECT_EQ(rest.find("event: terminal\n") != std::string::npos, ends) << rest;
    EXPECT_THAT(rest, EndsWith("\r\n0\r\n\r\n"));
    events.Close();
    stop.join();
  }
}

// A body needs four times its size while it is parsed.
TEST_F(GatewayTest, MemoryForBodiesBoundsTheirSizeAndComesBack) {
  GatewayFlags flags = Flags({a_.address()});
  flags.max_body_memory_bytes = 8 << 20;
  Start(flags);
  const auto body = [](size_t bytes) { return Json({{"prompt", std::string(bytes, 'x')}}).dump(); };
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(Exchange("POST", "/v1/videos", body((2 << 20) - 100)), StartsWith("HTTP/1.1 200")) << i;
  }
  EXPECT_THAT(Exchange("POST", "/v1/videos", body(2 << 20)),
              AllOf(StartsWith("HTTP/1.1 413"), HasSubstr("the body has more than 2097152 bytes")));
  EXPECT_THAT(Create(), StartsWith("HTTP/1.1 200"));
}

TEST_F(GatewayTest, EveryErrorOfItsStartNamesTheFlag) {
  const auto start = [&](void (*change)(GatewayFlags&)) {
    GatewayFlags flags = Flags({a_.address()});
    change(flags);
    return Gateway::Start(flags).status();
  };
  const std::vector<std::pair<void (*)(GatewayFlags&), std::string>> wrong = {
      {[](GatewayFlags& flags) { flags.frontends = {"host:99999"}; }, "--frontend host:99999"},
      {[](GatewayFlags& flags) {
         flags.frontends = {"https://host", ""};
       },
       "--frontend"},
      {[](GatewayFlags& flags) {
         flags.frontend_tls = true;
         flags.frontend_tls_ca = "/nonexistent/ca.pem";
       },
       "--frontend-tls-ca"},
      {[](GatewayFlags& flags) { flags.scratch_folder = "/nonexistent"; }, "--scratch-directory /nonexistent"},
      {[](GatewayFlags& flags) { flags.address = "0.0.0.0:0"; }, "--tls-certificate-file, or --insecure"},
      {[](GatewayFlags& flags) { flags.address = "nonsense"; }, "address"},
      {[](GatewayFlags& flags) { flags.hosts = {"two words"}; }, "host"},
      {[](GatewayFlags& flags) { flags.hosts = {"clips.example:443"}; }, "host"},
      {[](GatewayFlags& flags) {
         flags.tls.set_certificate_file("/nonexistent/c.pem");
         flags.tls.set_key_file("/nonexistent/k.pem");
       },
       "/nonexistent/"},
  };
  for (const auto& [change, named] : wrong) {
    EXPECT_THAT(start(change), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(named))) << named;
  }
  EXPECT_THAT(start([](GatewayFlags& flags) {
                flags.address = "0.0.0.0:0";
                flags.insecure = true;
              }),
              IsOk());
}

}  // namespace
}  // namespace kinora
