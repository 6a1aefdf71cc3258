// The HTTP port that every process has: GET /metrics (Prometheus text), /livez and /readyz (200 or 503 with a line that
// says why), and / (HTML), which says whose port it is and links these. One thread that waits for no client, and serves
// nothing else:
//
// - a request is a head of at most 8 KiB; one with a body is refused (413), as is any method but GET (405);
// - a connection ends 5 s after it was made, whatever it did by then;
// - of 64 connections the oldest gives way to a new one, so that silent or slow ones keep nobody from an answer.
#ifndef KINORA_SERVER_COMMON_HTTP_PAGES_H_
#define KINORA_SERVER_COMMON_HTTP_PAGES_H_

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/common/listen_address.h"

namespace kinora {

struct HttpPagesOptions {
  std::string title;                     // of the page /: "kinora-worker, group 0, rank 1"
  std::string address;                   // "127.0.0.1:8480"; port 0 picks one
  bool local_only = false;               // as ListeningSockets::Bind
  std::function<std::string()> metrics;  // the page's text; called on the pages' thread, as are the others: quick
  std::function<absl::Status()> live;    // not OK: restart this process
  std::function<absl::Status()> ready;   // not OK: send no requests
};

class HttpPages {
 public:
  static constexpr int kMaxConnections = 64;

  // Errors: those of ListeningSockets::Bind, for the field http_address.
  static absl::StatusOr<std::unique_ptr<HttpPages>> Start(HttpPagesOptions options);
  ~HttpPages();
  int port() const { return listening_.port(); }

 private:
  struct Visitor {
    FileDescriptor fd;
    std::chrono::steady_clock::time_point end;
    std::string head;
    std::string reply;  // once the head is whole
    size_t sent = 0;
  };
  using Visitors = std::list<Visitor>;  // the oldest first

  explicit HttpPages(HttpPagesOptions options) : options_(std::move(options)) {}
  void Run();
  void Accept(int listener);
  // These return whether the connection goes on.
  bool Read(Visitor& visitor);
  bool Write(Visitor& visitor);
  std::string Answer(std::string_view head) const;

  HttpPagesOptions options_;
  ListeningSockets listening_;
  FileDescriptor wake_;
  std::thread thread_;
  Visitors visitors_;    // of the thread
  bool paused_ = false;  // of the thread: there was no descriptor for a connection
};

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_HTTP_PAGES_H_
