// An HTTP/1.1 server over TCP, TLS or a Unix socket, with a few threads for all connections. What it does by itself:
//
// - limits: connections, in all and per client (further ones are closed at once); sizes and times of requests; requests
//   per second and client (429 with Retry-After). After an error of HTTP the connection ends.
// - checks of Host and Origin (origin_check.h), and fields of every reply that keep other sites out (http_message.h).
//   It sends no cookies and no CORS fields.
#ifndef KINORA_SERVER_GATEWAY_HTTP_SERVER_H_
#define KINORA_SERVER_GATEWAY_HTTP_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/gateway/gateway_metrics.h"
#include "server/gateway/http_exchange.h"
#include "server/gateway/http_parser.h"
#include "server/gateway/http_times.h"

namespace kinora {

// PEM texts, as LoadTlsFiles returns them. Empty certificate_chain: plain text; empty client_ca: clients need no
// certificate.
struct HttpTls {
  std::string certificate_chain, private_key, client_ca;
};

struct HttpServerOptions {
  std::string address;                       // listen_address.h
  bool local_only = false;                   // as ListeningSockets::Bind
  std::vector<int> listen_fds;               // sockets bound to `address` already; empty: Start binds them
  std::vector<std::string> hosts;            // origin_check.h
  std::vector<std::string> trusted_proxies;  // client_address.h
  HttpTls tls;
  int threads = 2;
  int max_connections = 1000;
  int max_connections_per_client = 250;
  double max_requests_per_second = 200;  // per client; rate_limit.h
  HttpParserLimits parser;
  HttpTimes times;
  HttpHandler handler;
  HttpProblemReply problem_reply;
  GatewayMetrics& metrics;
};

class HttpServer {
 public:
  // Errors: those of ListeningSockets::Bind, for the field `address`; InvalidArgument: hosts, proxies or TLS files.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(HttpServerOptions options);
  virtual ~HttpServer() = default;  // as Stop(0)

  // Accepts no further connections, lets exchanges end for `grace`, and closes the rest. Waits until handlers have
  // released every exchange. Idempotent.
  virtual void Stop(absl::Duration grace) = 0;
  virtual int port() const = 0;  // 0 on a Unix socket
};

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_HTTP_SERVER_H_
