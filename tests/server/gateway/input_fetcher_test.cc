// Fetches from a server on this machine with a certificate of its own, and of its behaviours those that hurt.
#include "server/gateway/input_fetcher.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "server/common/status_details.h"
#include "server/gateway/http_server.h"
#include "server/gateway/public_address.h"
#include "tests/testing/certificates.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::HasSubstr;
using testing::Not;
using File = std::shared_ptr<const SpoolFile>;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr int64_t kMaxBytes = 100'000;
constexpr char kSecret[] = "what only the server may know";

HttpReply RedirectTo(const std::string& url) { return {.status = 302, .fields = {{"Location", url}}, .body = kSecret}; }

class Count {  // of an event; thread-safe
 public:
  void Add() {
    absl::MutexLock lock(&mu_);
    ++count_;
  }
  bool any() {
    absl::MutexLock lock(&mu_);
    return count_ > 0;
  }
  void AwaitAny() {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(
        +[](int* count) { return *count > 0; }, &count_));
  }

 private:
  absl::Mutex mu_;
  int count_ ABSL_GUARDED_BY(mu_) = 0;
};

class InputFetcherTest : public testing::Test {
 protected:
  InputFetcherTest() {
    auto server = HttpServer::Start(
        {.address = "127.0.0.1:0",
         .tls = {.certificate_chain = certificate_.certificate, .private_key = certificate_.key, .client_ca = ""},
         .handler = [this](const std::shared_ptr<HttpExchange>& exchange) { Answer(exchange); },
         .problem_reply = [](const HttpProblem& problem) { return HttpReply{.status = problem.status}; },
         .metrics = metrics_});
    KINORA_CHECK(server.ok()) << server.status().ToString();
    server_ = *std::move(server);
    port_ = server_->port();
  }

  std::string Url(const std::string& path, const std::string& host = "127.0.0.1") const {
    return absl::StrCat("https://", host, ":", port_, path);
  }

  InputFetcher::Options Options() {
    InputFetcher::Options options = {.authorities = certificate_.certificate,
                                     .scratch_folder = folder_.path(),
                                     .max_bytes = kMaxBytes,
                                     .scratch_space = scratch_,
                                     .timeout = absl::Seconds(30)};
    for (const char* host : {"127.0.0.1", "localhost"}) {
      const auto allowed = ParseAllowedHost(absl::StrCat(host, ":", port_));
      EXPECT_THAT(allowed, IsOk());
      options.hosts.push_back(*allowed);
    }
    return options;
  }

  void Start(InputFetcher::Options options) {
    auto fetcher = InputFetcher::Start(std::move(options));
    ASSERT_THAT(fetcher, IsOk());
    fetcher_ = *std::move(fetcher);
  }

  absl::StatusOr<File> Fetch(const std::string& url) {
    absl::StatusOr<File> result;
    absl::Notification ended;
    fetcher_->Fetch(url, [&](absl::StatusOr<File> file) {
      result = std::move(file);
      ended.Notify();
    });
    ended.WaitForNotification();
    return result;
  }

  Count asked_to_hang_, left_;
  ByteBudget scratch_{int64_t{1} << 20};
  std::unique_ptr<InputFetcher> fetcher_;

 private:
  static void SendEndless(const std::shared_ptr<HttpExchange>& exchange) {
    exchange->Write(std::string(50'000, 'x'), [exchange] { SendEndless(exchange); });
  }

  void Answer(const std::shared_ptr<HttpExchange>& exchange) {
    const std::string& path = exchange->head().path;
    if (path == "/file") return exchange->Reply({.status = 200, .body = "content"});
    if (path == "/large") return exchange->Reply({.status = 200, .body = std::string(kMaxBytes, 'x')});
    if (path == "/too-large") return exchange->Reply({.status = 200, .body = std::string(kMaxBytes + 1, 'x')});
    if (path == "/empty") return exchange->Reply({.status = 200});
    if (path == "/part") return exchange->Reply({.status = 206, .body = kSecret});
    if (path == "/once") return exchange->Reply(RedirectTo("file"));
    if (path == "/again") return exchange->Reply(RedirectTo("/again"));
    if (path == "/loopback") return exchange->Reply(RedirectTo(Url("/file", "localhost")));
    if (path == "/other-host") return exchange->Reply(RedirectTo("https://169.254.169.254/latest"));
    if (path == "/plain") return exchange->Reply(RedirectTo("http://127.0.0.1/file"));
    if (path == "/nowhere") return exchange->Reply({.status = 302, .body = kSecret});
    if (path != "/endless" && path != "/slow" && path != "/cut" && path != "/silent") {
      return exchange->Reply({.status = 404, .body = kSecret});
    }
    if (path == "/silent") {
      asked_to_hang_.Add();
      return exchange->SetOnLeft([this, exchange] { left_.Add(); });  // the only holder
    }
    exchange->Begin({.status = 200}, path == "/endless" ? std::nullopt : std::optional<uint64_t>(kMaxBytes));
    if (path == "/endless") return SendEndless(exchange);
    exchange->Write("a few bytes", [exchange, cut = path == "/cut"] {
      if (cut) return exchange->Abort();
      exchange->SetOnLeft([exchange] {});
    });
  }

  const TestCertificate certificate_ = MakeCertificate({.address = "127.0.0.1"});
  TemporaryDirectory folder_;
  prometheus::Registry registry_;
  GatewayMetrics metrics_{registry_};
  std::unique_ptr<HttpServer> server_;
  int port_ = 0;
};

TEST_F(InputFetcherTest, AFileComesWithItsDigest) {
  Start(Options());
  KINORA_ASSERT_OK_AND_ASSIGN(const File file, Fetch(Url("/file")));
  EXPECT_THAT(file->Read(0, 100), IsOkAndHolds(std::string("content")));
  EXPECT_EQ(file->sha256(), Sha256Hex("content"));
  KINORA_ASSERT_OK_AND_ASSIGN(const File large, Fetch(Url("/large")));
  EXPECT_EQ(large->size(), kMaxBytes) << "the limit itself is allowed";
}

TEST_F(InputFetcherTest, SaysWhatIsWrongWithoutTheContent) {
  Start(Options());
  const std::pair<const char*, const char*> cases[] = {
      {"/absent", "has a server that answered 404 instead of 200"},
      {"/part", "answered 206 instead of 200"},
      {"/empty", "leads to an empty file"},
      {"/too-large", "leads to a file of more than 100000 bytes"},
      {"/endless", "leads to a file of more than 100000 bytes"},
      {"/cut", "could not be fetched"},
      {"/again", "redirects more than 3 times"},
      {"/other-host", "redirects to another URL: this server does not fetch URLs of 169.254.169.254"},
      {"/plain", "redirects to another URL: must be an https:// URL"},
      {"/nowhere", "redirects to another URL: must be an https:// URL"}};
  for (const auto& [path, message] : cases) {
    const absl::StatusOr<File> file = Fetch(Url(path));
    EXPECT_THAT(file, StatusIs(kInvalid, HasSubstr(message))) << path;
    EXPECT_THAT(std::string(file.status().message()), Not(HasSubstr(kSecret)));
  }
  EXPECT_THAT(Fetch("https://other.example/"), StatusIs(kInvalid, HasSubstr("--input-url-host")));
}

TEST_F(InputFetcherTest, ARedirectWithinTheListIsFollowed) {
  Start(Options());
  EXPECT_THAT(Fetch(Url("/once")), IsOk());
}

// localhost is listed, and has a certificate; a name in DNS may as well point here.
TEST_F(InputFetcherTest, AHostGivenByNameMustHaveAPublicAddress) {
  Start(Options());
  EXPECT_THAT(Fetch(Url("/file", "localhost")), StatusIs(kInvalid, HasSubstr("an address that is not public")));
  EXPECT_THAT(Fetch(Url("/loopback")), StatusIs(kInvalid, HasSubstr("an address that is not public")));
}

TEST_F(InputFetcherTest, TheCertificateMustBeOfTheAuthorities) {
  InputFetcher::Options options = Options();
  options.authorities = MakeCertificate({.name = "other"}).certificate;
  Start(std::move(options));
  EXPECT_THAT(Fetch(Url("/file")), StatusIs(kInvalid, HasSubstr("without a valid certificate")));
  InputFetcher::Options without = Options();
  without.authorities = "no certificate";
  EXPECT_THAT(InputFetcher::Start(std::move(without)), StatusIs(kInvalid, HasSubstr("no certificate in PEM")));
}

TEST_F(InputFetcherTest, AFetchHasALimitOfTime) {
  InputFetcher::Options options = Options();
  for (options.timeout = absl::Milliseconds(200); !asked_to_hang_.any(); options.timeout *= 2) {
    Start(options);  // on a busy machine a short time ends before the server gets the request
    EXPECT_THAT(Fetch(Url("/silent")), StatusIs(kInvalid, HasSubstr("could not be fetched in time")));
  }
  left_.AwaitAny();
}

TEST_F(InputFetcherTest, ASlowServerIsLeft) {
  InputFetcher::Options options = Options();
  options.slow_time = absl::Seconds(1);
  Start(std::move(options));
  EXPECT_THAT(Fetch(Url("/slow")), StatusIs(kInvalid, HasSubstr("could not be fetched in time")));
}

TEST_F(InputFetcherTest, AFetchCanBeCancelled) {
  Start(Options());
  absl::Status result;
  absl::Notification ended;
  const FrontendCallPtr call = fetcher_->Fetch(Url("/silent"), [&](const absl::StatusOr<File>& file) {
    result = file.status();
    ended.Notify();
  });
  asked_to_hang_.AwaitAny();
  call->Cancel();
  ended.WaitForNotification();
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kCancelled));
  left_.AwaitAny();  // the server notices
  call->Cancel();
}

TEST_F(InputFetcherTest, StoppingCancelsAll) {
  Start(Options());
  absl::Status result;
  fetcher_->Fetch(Url("/silent"), [&](const absl::StatusOr<File>& file) { result = file.status(); });
  asked_to_hang_.AwaitAny();
  fetcher_->Stop();
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(Fetch(Url("/file")), StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(InputFetcherTest, FetchesShareTheScratchSpaceAndAreLimitedInNumber) {
  InputFetcher::Options options = Options();
  options.max_fetches = 1;
  options.max_bytes = int64_t{1} << 30;
  Start(std::move(options));
  const absl::StatusOr<File> endless = Fetch(Url("/endless"));
  EXPECT_THAT(endless, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("space for uploads")));
  {
    KINORA_ASSERT_OK_AND_ASSIGN(const File file, Fetch(Url("/large")));
    EXPECT_FALSE(ByteBudget::Share(scratch_).Grow((int64_t{1} << 20) - kMaxBytes + 1)) << "as long as the file is kept";
  }
  EXPECT_TRUE(ByteBudget::Share(scratch_).Grow(int64_t{1} << 20)) << "all of it is free again";
  absl::Notification ended;
  const FrontendCallPtr call = fetcher_->Fetch(Url("/silent"), [&](const absl::StatusOr<File>&) { ended.Notify(); });
  asked_to_hang_.AwaitAny();
  EXPECT_THAT(Fetch(Url("/file")), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("at once")));
  call->Cancel();
  ended.WaitForNotification();
  EXPECT_THAT(Fetch(Url("/file")), IsOk());
}

TEST(PublicAddressTest, KnowsTheAddressesOfNetworksWithin) {
  const auto is_public = [](const std::string& text) {
    sockaddr_storage storage = {};
    auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
    const bool six = text.find(':') != std::string::npos;
    storage.ss_family = six ? AF_INET6 : AF_INET;
    void* address = six ? static_cast<void*>(&v6->sin6_addr) : &v4->sin_addr;
    EXPECT_EQ(inet_pton(storage.ss_family, text.c_str(), address), 1) << text;
    return IsPublicAddress(reinterpret_cast<const sockaddr&>(storage));
  };
  for (const char* text : {"0.0.0.0",
                           "10.1.2.3",
                           "100.64.0.1",
                           "127.0.0.1",
                           "127.255.255.255",
                           "169.254.169.254",
                           "172.16.0.1",
                           "172.31.255.255",
                           "192.0.0.1",
                           "192.168.1.1",
                           "198.18.0.1",
                           "198.19.255.255",
                           "224.0.0.1",
                           "255.255.255.255",
                           "::",
                           "::1",
                           "::ffff:127.0.0.1",
                           "::ffff:10.0.0.1",
                           "::127.0.0.1",
                           "64:ff9b::a9fe:a9fe",
                           "fe80::1",
                           "fc00::1",
                           "fd12::1",
                           "ff02::1",
                           "2001::1",
                           "2001:db8::1",
                           "2002:7f00:1::",
                           "3fff::1",
                           "4000::1"}) {
    EXPECT_FALSE(is_public(text)) << text;
  }
  for (const char* text :
       {"1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0",
        "192.0.1.0", "198.17.255.255", "198.20.0.0", "223.255.255.255", "::ffff:1.1.1.1", "64:ff9b::101:101",
        "2001:4860:4860::8888", "2606:4700::1111", "2a00::1"}) {
    EXPECT_TRUE(is_public(text)) << text;
  }
  sockaddr other = {};
  other.sa_family = AF_UNIX;
  EXPECT_FALSE(IsPublicAddress(other));
}

}  // namespace
}  // namespace kinora
