#include "server/gateway/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "tests/server/gateway/http_connection.h"
#include "tests/testing/certificates.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr char kGet[] = "GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n";

// A server whose handler echoes "METHOD PATH BODY", except for the paths that a test gives a handler.
class HttpServerTest : public testing::Test {
 protected:
  HttpServerOptions Options() {
    return {.address = "127.0.0.1:0",
            .handler = [this](std::shared_ptr<HttpExchange> exchange) { Handle(std::move(exchange)); },
            .problem_reply =
                [](const HttpProblem& problem) {
                  return HttpReply{.status = problem.status, .body = absl::StrCat(problem.code, ": ", problem.message)};
                },
            .metrics = metrics_};
  }
  int Start(HttpServerOptions options) {
    auto server = HttpServer::Start(std::move(options));
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    return server_->port();
  }
  int Start() { return Start(Options()); }

  std::string Exchange(int port, const std::string& request) {
    HttpConnection connection(port);
    connection.Send(request);
    return connection.ReadReply();
  }

  HttpHandler other_;  // for paths that begin with /other

 private:
  static void ReadAll(const std::shared_ptr<HttpExchange>& exchange, std::string body) {
    exchange->ReadBody([exchange, body = std::move(body)](const std::string& piece) {
      if (!piece.empty()) return ReadAll(exchange, body + piece);
      exchange->Reply(
          {.status = 200, .body = absl::StrCat(exchange->head().method, " ", exchange->head().path, " ", body)});
    });
  }
  void Handle(std::shared_ptr<HttpExchange> exchange) {
    if (exchange->head().path.rfind("/other", 0) == 0) return other_(std::move(exchange));
    ReadAll(exchange, "");
  }

  prometheus::Registry registry_;
  GatewayMetrics metrics_{registry_};
  std::unique_ptr<HttpServer> server_;

 protected:
  HttpServer& server() { return *server_; }
};

TEST_F(HttpServerTest, AnswersRequestsOfOneConnectionInOrder) {
  HttpConnection connection(Start());
  ASSERT_TRUE(connection.Send(absl::StrCat(
      kGet, "POST /b?c=d HTTP/1.1\r\nHost: localhost:8472\r\nContent-Length: 5\r\n\r\nhello",
      "POST /c HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n",
      "HEAD /d HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\n\r\n")));
  EXPECT_THAT(connection.ReadReply(), AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), EndsWith("\r\n\r\nGET /a ")));
  EXPECT_THAT(connection.ReadReply(), AllOf(HasSubstr("Connection: keep-alive"), EndsWith("POST /b hello")));
  EXPECT_THAT(connection.ReadReply(), EndsWith("POST /c abcde"));
  EXPECT_THAT(connection.ReadAll(),
              AllOf(HasSubstr("Content-Length: 8\r\n"), HasSubstr("Connection: close"), EndsWith("\r\n\r\n")));
}

TEST_F(HttpServerTest, EveryReplyKeepsOtherSitesOut) {
  const int port = Start();
  for (const std::string& request : {std::string(kGet), std::string("nonsense\r\n\r\n")}) {
    EXPECT_THAT(Exchange(port, request),
                AllOf(HasSubstr("Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n"),
                      HasSubstr("X-Content-Type-Options: nosniff\r\n"), HasSubstr("Referrer-Policy: no-referrer\r\n"),
                      Not(HasSubstr("Set-Cookie")), Not(HasSubstr("Access-Control"))));
  }
}

// Each form makes some server see another border between two requests than another.
TEST_F(HttpServerTest, RejectsAmbiguousRequestsAndCloses) {
  const int port = Start();
  const std::string post = "POST /a HTTP/1.1\r\nHost: localhost\r\n",
                    next = "\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const std::vector<std::pair<std::string, std::string>> forms = {
      {"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "400"},
      {"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", "400"},
      {"Content-Length: 4\r\nContent-Length: 4\r\n", "400"},
      {"Content-Length: 4\r\nContent-Length: 5\r\n", "400"},
      {"Content-Length: 4, 4\r\n", "400"},
      {"Content-Length: +4\r\n", "400"},
      {"Content-Length: -4\r\n", "400"},
      {"Content-Length: 0x4\r\n", "400"},
      {"Content-Length: 99999999999999999999\r\n", "400"},
      {"Content-Length:\r\n", "400"},
      {"Transfer-Encoding: gzip\r\n", "501"},
      {"Transfer-Encoding: chunked, gzip\r\n", "501"},
      {"Transfer-Encoding: gzip, chunked\r\n", "501"},
      {"Transfer-Encoding: xchunked\r\n", "501"},
      {"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "400"},
      {"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "400"},
      {"Transfer-Encoding:\x0b chunked\r\n", "400"},
      {"Transfer-Encoding : chunked\r\n", "400"},
      {"Transfer-Encoding: chunked\n", "400"},
      {"X: y\r\n Transfer-Encoding: chunked\r\n", "400"},
      {"X: y\rTransfer-Encoding: chunked\r\n", "400"},
      {std::string("X: y\0z\r\n", 8), "400"},
      {"Host: other\r\n", "400"},
      {"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n", "400"},
      {"Expect: 200-ok\r\n", "417"},
  };
  for (const auto& [fields, status] : forms) {
    HttpConnection connection(port);
    connection.Send(absl::StrCat(post, fields, next));
    EXPECT_THAT(connection.ReadAll(), AllOf(StartsWith(absl::StrCat("HTTP/1.1 ", status)),
                                            HasSubstr("Connection: close"), Not(HasSubstr("/smuggled"))))
        << fields;
  }
}

TEST_F(HttpServerTest, RejectsMalformedRequestsAndChunks) {
  const int port = Start();
  const std::string host = "Host: localhost\r\n\r\n",
                    chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + host;
  for (const std::string& request :
       {"GET / HTTP/2.0\r\n" + host, "GET / HTTP/0.9\r\n" + host, "GET http://localhost/ HTTP/1.1\r\n" + host,
        "GET a HTTP/1.1\r\n" + host, "GET /\xc3\xa4 HTTP/1.1\r\n" + host, "GET  / HTTP/1.1\r\n" + host,
        "GET / HTTP/1.1 \r\n" + host, std::string("GET / HTTP/1.1\r\n\r\n"), "\x16\x03\x01\x02\r\n\r\n" + host,
        chunked + "zz\r\n", chunked + "1\r\nab\r\n0\r\n\r\n", chunked + "ffffffffffffffffff\r\n", chunked + "-1\r\n",
        chunked + "1;" + std::string(1000, 'x')}) {
    HttpConnection connection(port);
    connection.Send(request);
    EXPECT_THAT(connection.ReadAll(), StartsWith("HTTP/1.1 400")) << request;
  }
}

TEST_F(HttpServerTest, LimitsHeadsAndBodies) {
  HttpServerOptions options = Options();
  options.parser = {.head_bytes = 1000, .fields = 10, .body_bytes = 100};
  const int port = Start(std::move(options));
  const std::string get = "GET / HTTP/1.1\r\nHost: localhost\r\n";
  EXPECT_THAT(Exchange(port, absl::StrCat(get, "X: ", std::string(2000, 'x'))), StartsWith("HTTP/1.1 431"));
  std::string many = get;
  for (int i = 0; i < 20; ++i) many += "X: y\r\n";
  EXPECT_THAT(Exchange(port, many + "\r\n"), StartsWith("HTTP/1.1 431"));
  const std::string post = "POST / HTTP/1.1\r\nHost: localhost\r\n";
  EXPECT_THAT(Exchange(port, post + "Content-Length: 101\r\n\r\n"), StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(Exchange(port, absl::StrCat(post, "Transfer-Encoding: chunked\r\n\r\n65\r\n", std::string(101, 'x'))),
              StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(Exchange(port, absl::StrCat(post, "Content-Length: 100\r\n\r\n", std::string(100, 'x'))),
              StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, ChecksHostAndOrigin) {
  HttpServerOptions options = Options();
  options.hosts = {"clips.example"};
  const int port = Start(std::move(options));
  const auto status = [&](const std::string& method, const std::string& fields) {
    return Exchange(port, absl::StrCat(method, " / HTTP/1.1\r\n", fields, "\r\n\r\n")).substr(9, 3);
  };
  for (const char* host : {"localhost", "LOCALHOST:1", "127.0.0.1:8472", "127.3.2.1", "[::1]:8472", "clips.example",
                           "Clips.Example:443"}) {
    EXPECT_EQ(status("GET", absl::StrCat("Host: ", host)), "200") << host;
  }
  for (const char* host : {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "localhost:x",
                           "10.0.0.1", "", "[::1", "user@localhost", "127.0.0.256", "clips.example."}) {
    EXPECT_EQ(status("GET", absl::StrCat("Host: ", host)), "421") << host;
  }
  const std::string own = "Host: localhost:8472\r\n";
  EXPECT_EQ(status("POST", own + "Origin: http://localhost:8472"), "200");
  EXPECT_EQ(status("POST", own + "Sec-Fetch-Site: same-origin"), "200");
  EXPECT_EQ(status("POST", own + "Sec-Fetch-Site: none"), "200");
  EXPECT_EQ(status("GET", own + "Origin: http://evil.example"), "200");
  for (const char* fields :
       {"Origin: http://evil.example", "Origin: null", "Origin: http://localhost:8473", "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site", "Origin: http://localhost:8472\r\nSec-Fetch-Site: cross-site"}) {
    EXPECT_EQ(status("POST", own + fields), "403") << fields;
    EXPECT_EQ(status("DELETE", own + fields), "403") << fields;
  }
}

TEST_F(HttpServerTest, LimitsConnectionsInAllAndPerClient) {
  HttpServerOptions options = Options();
  options.max_connections_per_client = 2;
  const int port = Start(std::move(options));
  HttpConnection first(port);
  first.Send(kGet);
  EXPECT_THAT(first.ReadReply(), StartsWith("HTTP/1.1 200"));
  HttpConnection second(port);
  second.Send(kGet);
  EXPECT_THAT(second.ReadReply(), StartsWith("HTTP/1.1 200"));
  HttpConnection third(port);
  third.Send(kGet);
  EXPECT_EQ(third.ReadAll(), "");
  first.Send("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(first.ReadAll(), StartsWith("HTTP/1.1 200"));
  first.Close();
  std::string reply;  // until the server has noticed
  while (reply.empty()) reply = Exchange(port, kGet);
  EXPECT_THAT(reply, StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, LimitsRequestsPerSecondOfAClient) {
  HttpServerOptions options = Options();
  options.max_requests_per_second = 0.001;
  const int port = Start(std::move(options));
  EXPECT_THAT(Exchange(port, kGet), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Exchange(port, kGet), AllOf(StartsWith("HTTP/1.1 429"), HasSubstr("Retry-After: ")));
}

TEST_F(HttpServerTest, BehindATrustedProxyItsLimitsAreThoseOfTheProxysClients) {
  HttpServerOptions options = Options();
  options.max_requests_per_second = 0.001;
  options.max_connections_per_client = 1;
  options.trusted_proxies = {"127.0.0.0/8"};
  std::string client;
  other_ = [&](const std::shared_ptr<HttpExchange>& exchange) {
    client = exchange->client();
    exchange->Reply({.status = 200});
  };
  const int port = Start(std::move(options));
  const auto get = [&](const std::string& forwarded) {
    return absl::StrCat("GET /other HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: ", forwarded, "\r\n\r\n");
  };
  HttpConnection first(port), second(port);  // of the proxy
  first.Send(get("192.0.2.1"));
  EXPECT_THAT(first.ReadReply(), StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(client, "192.0.2.1");
  second.Send(get("198.51.100.9, 192.0.2.1"));
  EXPECT_THAT(second.ReadReply(), StartsWith("HTTP/1.1 429"));
  first.Send(get("192.0.2.1, 192.0.2.2"));
  EXPECT_THAT(first.ReadReply(), StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(client, "192.0.2.2");
}

TEST_F(HttpServerTest, EndsSlowRequests) {
  HttpServerOptions options = Options();
  options.times.head = options.times.body = absl::Milliseconds(100);
  const int port = Start(std::move(options));
  EXPECT_THAT(HttpConnection(port).Send("GET"), true);
  HttpConnection head(port), body(port);
  head.Send("GET / HT");
  EXPECT_THAT(head.ReadAll(), StartsWith("HTTP/1.1 408"));
  body.Send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_THAT(body.ReadAll(), StartsWith("HTTP/1.1 408"));
}

TEST_F(HttpServerTest, ClosesIdleConnections) {
  HttpServerOptions options = Options();
  options.times.idle = absl::Milliseconds(100);
  EXPECT_EQ(HttpConnection(Start(std::move(options))).ReadAll(), "");
}

TEST_F(HttpServerTest, ClosesConnectionsThatDoNotRead) {
  HttpServerOptions options = Options();
  options.times.write = absl::Milliseconds(100);
  absl::Notification left;
  other_ = [&left](const std::shared_ptr<HttpExchange>& exchange) {
    exchange->SetOnLeft([&left] { left.Notify(); });
    exchange->Begin({.status = 200}, std::nullopt);
    exchange->Write(std::string(64 << 20, 'x'), [exchange] { exchange->End(); });
  };
  HttpConnection stuck(Start(std::move(options)), /*receive_buffer=*/4096);
  stuck.Send("GET /other HTTP/1.1\r\nHost: localhost\r\n\r\n");
  left.WaitForNotification();
}

TEST_F(HttpServerTest, AsksForABodyThatTheClientHoldsBack) {
  HttpConnection connection(Start());
  connection.Send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(connection.ReadReply(), "HTTP/1.1 100 Continue\r\n\r\n");
  connection.Send("ab");
  EXPECT_THAT(connection.ReadReply(), EndsWith("POST / ab"));
}

TEST_F(HttpServerTest, TellsTheHandlerThatTheClientHasLeft) {
  absl::Notification begun, left;
  std::shared_ptr<HttpExchange> held;
  other_ = [&](std::shared_ptr<HttpExchange> exchange) {
    exchange->SetOnLeft([&left] { left.Notify(); });
    held = std::move(exchange);
    begun.Notify();
  };
  HttpConnection connection(Start());
  connection.Send("GET /other HTTP/1.1\r\nHost: localhost\r\n\r\n");
  begun.WaitForNotification();
  connection.Close();
  left.WaitForNotification();
  held->Reply({.status = 200});  // has no effect
  held = nullptr;
}

TEST_F(HttpServerTest, AHandlerThatForgetsItsExchangeEndsTheConnection) {
  other_ = [](const std::shared_ptr<HttpExchange>&) {};
  HttpConnection connection(Start());
  connection.Send("GET /other HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(connection.ReadAll(), "");
}

// The handler writes the next piece when the last one is sent, so that it holds one piece however slow the client is.
void WritePieces(const std::shared_ptr<HttpExchange>& exchange, int left) {
  if (left == 0) return exchange->End();
  exchange->Write(std::string(100'000, static_cast<char>('a' + left % 26)),
                  [exchange, left] { WritePieces(exchange, left - 1); });
}

TEST_F(HttpServerTest, SendsRepliesInPieces) {
  other_ = [](const std::shared_ptr<HttpExchange>& exchange) {
    const bool sized = exchange->head().path == "/other/sized";
    exchange->Begin({.status = 200}, sized ? std::optional<uint64_t>(2'000'000) : std::nullopt);
    WritePieces(exchange, 20);
  };
  const int port = Start();
  HttpConnection sized(port), chunked(port), old(port);
  sized.Send("GET /other/sized HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const std::string whole = sized.ReadReply();
  EXPECT_THAT(whole, HasSubstr("Content-Length: 2000000\r\n"));
  EXPECT_EQ(whole.size() - whole.find("\r\n\r\n") - 4, 2'000'000u);
  chunked.Send("GET /other HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(chunked.ReadAll(), AllOf(HasSubstr("Transfer-Encoding: chunked\r\n"), HasSubstr("\r\n186a0\r\n"),
                                       EndsWith("\r\n0\r\n\r\n")));
  old.Send("GET /other HTTP/1.0\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(old.ReadAll(), AllOf(HasSubstr("Connection: close"), Not(HasSubstr("chunked")), EndsWith("bbb")));
}

// The handshake and an exchange, by OpenSSL's blocking client.
std::string ExchangeByTls(int port, const std::string& certificate, const std::string& request) {
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  BIO* const pem = BIO_new_mem_buf(certificate.data(), static_cast<int>(certificate.size()));
  X509* const authority = PEM_read_bio_X509(pem, nullptr, nullptr, nullptr);
  X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  BIO* const connection = BIO_new_ssl_connect(context);
  BIO_set_conn_hostname(connection, absl::StrCat("127.0.0.1:", port).c_str());
  std::string reply;
  if (BIO_write(connection, request.data(), static_cast<int>(request.size())) > 0) {
    char bytes[65536];
    for (int count; (count = BIO_read(connection, bytes, sizeof(bytes))) > 0;) {
      reply.append(bytes, static_cast<size_t>(count));
    }
  }
  BIO_free_all(connection);
  X509_free(authority);
  BIO_free(pem);
  SSL_CTX_free(context);
  return reply;
}

TEST_F(HttpServerTest, SpeaksTlsAlone) {
  const TestCertificate certificate = MakeCertificate();
  HttpServerOptions options = Options();
  options.tls = {.certificate_chain = certificate.certificate, .private_key = certificate.key};
  const int port = Start(std::move(options));
  const std::string body(1 << 20, 'x');
  EXPECT_THAT(ExchangeByTls(port, certificate.certificate,
                            absl::StrCat("POST /a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: ",
                                         body.size(), "\r\n\r\n", body)),
              AllOf(StartsWith("HTTP/1.1 200"), EndsWith("POST /a " + body)));
  EXPECT_EQ(ExchangeByTls(port, MakeCertificate().certificate, kGet), "");
  HttpConnection plain(port);
  plain.Send(kGet);
  EXPECT_THAT(plain.ReadAll(), Not(HasSubstr("HTTP")));
}

TEST_F(HttpServerTest, DrainsOpenRequestsAndClosesIdleConnections) {
  absl::Notification begun, drain;
  other_ = [&](const std::shared_ptr<HttpExchange>& exchange) {
    exchange->SetOnDrain([exchange, &drain] {
      drain.Notify();
      exchange->Reply({.status = 200, .body = "at last"});
    });
    begun.Notify();
  };
  const int port = Start();
  HttpConnection idle(port), busy(port);
  idle.Send(kGet);
  idle.ReadReply();
  busy.Send("GET /other HTTP/1.1\r\nHost: localhost\r\n\r\n");
  begun.WaitForNotification();
  std::thread stop([&] { server().Stop(absl::Seconds(30)); });
  drain.WaitForNotification();
  EXPECT_THAT(busy.ReadReply(), AllOf(HasSubstr("Connection: close"), EndsWith("at last")));
  EXPECT_EQ(idle.ReadAll(), "");
  busy.Close();
  stop.join();
}

TEST_F(HttpServerTest, AStopReachesConnectionsThatComeAtTheSameTime) {
  for (int round = 0; round < 20; ++round) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(Start()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    std::atomic<int> connected = 0;
    std::vector<FileDescriptor> connections;  // kept open
    std::thread client([&] {
      for (bool more = true; more && connections.size() < 1000; ++connected) {
        const FileDescriptor& fd = connections.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        more = connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
      }
    });
    while (connected < 10) std::this_thread::yield();
    server().Stop(absl::InfiniteDuration());  // hangs if a connection is not told
    client.join();
  }
}

}  // namespace
}  // namespace kinora
