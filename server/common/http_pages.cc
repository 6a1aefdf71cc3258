#include "server/common/http_pages.h"

#include <civetweb.h>

#include <atomic>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kinora {
namespace {

int Reply(mg_connection* connection, int code, std::string_view content_type, const std::string& body) {
  const char* reason = code == 200 ? "OK" : code == 405 ? "Method Not Allowed" : "Service Unavailable";
  mg_printf(connection,
            "HTTP/1.1 %d %s\r\nContent-Type: %.*s\r\nContent-Length: %zu\r\nCache-Control: no-store\r\n"
            "Connection: close\r\n\r\n",
            code, reason, static_cast<int>(content_type.size()), content_type.data(), body.size());
  mg_write(connection, body.data(), body.size());
  return code;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpPages>> HttpPages::Start(HttpPagesOptions options) {
  std::unique_ptr<HttpPages> pages(new HttpPages(std::move(options)));
  // A connection that says nothing holds a thread for a second at most: a probe waits little behind dozens of them.
  const char* settings[] = {"listening_ports",
                            pages->options_.address.c_str(),
                            "num_threads",
                            "16",
                            "request_timeout_ms",
                            "1000",
                            "connection_queue",
                            "256",
                            "enable_keep_alive",
                            "no",
                            nullptr};
  mg_callbacks callbacks = {};
  pages->context_ = mg_start(&callbacks, nullptr, settings);
  if (pages->context_ == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("http_address: cannot listen on \"", pages->options_.address, "\" (in use, or not host:port)"));
  }
  mg_server_port ports[1] = {};
  if (mg_get_server_ports(pages->context_, 1, ports) >= 1) pages->port_ = ports[0].port;
  for (const char* path : {"/metrics$", "/livez$", "/readyz$"}) {
    mg_set_request_handler(pages->context_, path, &HttpPages::Answer, pages.get());
  }
  return pages;
}

HttpPages::~HttpPages() {
  if (context_ == nullptr) return;
  // The listening thread looks at its stop flag every 2 s, or when a connection comes.
  std::atomic<bool> stopped = false;
  std::thread stopping([&] {
    mg_stop(context_);
    stopped = true;
  });
  while (!stopped) {
    char error[100];
    if (mg_connection* wake = mg_connect_client("127.0.0.1", port_, 0, error, sizeof(error))) mg_close_connection(wake);
    std::this_thread::yield();
  }
  stopping.join();
}

int HttpPages::Answer(mg_connection* connection, void* self) {
  const auto& options = static_cast<HttpPages*>(self)->options_;
  const mg_request_info* request = mg_get_request_info(connection);
  if (std::string_view(request->request_method) != "GET") return Reply(connection, 405, "text/plain", "GET only\n");
  const std::string_view path = request->local_uri;
  if (path == "/metrics") return Reply(connection, 200, "text/plain; version=0.0.4; charset=utf-8", options.metrics());
  const absl::Status status = path == "/livez" ? options.live() : options.ready();
  if (status.ok()) return Reply(connection, 200, "text/plain", "ok\n");
  return Reply(connection, 503, "text/plain", absl::StrCat(std::string(status.message()), "\n"));
}

}  // namespace kinora
