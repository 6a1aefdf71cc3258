// The HTTP port that every process has: GET /metrics (Prometheus text), /livez and /readyz (200 or 503 with a line that
// says why). Answered by two threads of its own, so a busy process still answers.
#ifndef KINORA_SERVER_COMMON_HTTP_PAGES_H_
#define KINORA_SERVER_COMMON_HTTP_PAGES_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct mg_connection;  // civetweb's
struct mg_context;

namespace kinora {

struct HttpPagesOptions {
  std::string address;                   // "127.0.0.1:8480"; port 0 picks one
  std::function<std::string()> metrics;  // the page's text; thread-safe, as are the others
  std::function<absl::Status()> live;    // not OK: restart this process
  std::function<absl::Status()> ready;   // not OK: send no requests
};

class HttpPages {
 public:
  static absl::StatusOr<std::unique_ptr<HttpPages>> Start(HttpPagesOptions options);
  ~HttpPages();
  int port() const { return port_; }

 private:
  explicit HttpPages(HttpPagesOptions options) : options_(std::move(options)) {}
  static int Answer(mg_connection* connection, void* self);

  HttpPagesOptions options_;
  mg_context* context_ = nullptr;
  int port_ = 0;
};

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_HTTP_PAGES_H_
