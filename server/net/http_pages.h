// The HTTP port of every process: GET /metrics (Prometheus text), /livez and /readyz (200, or 503 with a line that says
// why), and / (HTML), which names the process and links the others. Has one thread, which never waits for a client:
//
// - A request is a head of at most 8 KiB. A request with a body is rejected (413), as is any method but GET (405).
// - A connection ends 5 s after it was made, in any state.
// - With 64 connections open, a new one replaces the oldest, so that silent or slow clients cannot block others.
#ifndef KINORA_SERVER_NET_HTTP_PAGES_H_
#define KINORA_SERVER_NET_HTTP_PAGES_H_

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "server/net/listen_address.h"

namespace kinora {

struct HttpPagesOptions {
  std::string title;                     // of the page /: "kinora-worker, group 0, rank 1"
  std::string address;                   // "127.0.0.1:8480"; port 0 picks one
  bool local_only = false;               // as ListeningSockets::Bind
  std::function<std::string()> metrics;  // text of /metrics. The callbacks run on the pages' thread and must be quick
  std::function<absl::Status()> live;    // if not OK, this process must be restarted
  std::function<absl::Status()> ready;   // if not OK, this process accepts no jobs
  const Clock& steady = Clock::Steady();
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
    absl::Time end;
    std::string head;
    std::string reply;  // empty until the head is complete
    size_t sent = 0;
  };
  using Visitors = std::list<Visitor>;  // the oldest first

  explicit HttpPages(HttpPagesOptions options) : options_(std::move(options)) {}
  void Run();
  void Accept(int listener);
  // Read and Write return whether the connection continues.
  bool Read(Visitor& visitor);
  bool Write(Visitor& visitor);
  std::string Answer(std::string_view head) const;

  HttpPagesOptions options_;
  ListeningSockets listening_;
  FileDescriptor wake_;
  std::thread thread_;
  Visitors visitors_;    // used only by the thread
  bool paused_ = false;  // used only by the thread: accept lacked descriptors or memory
};

}  // namespace kinora

#endif  // KINORA_SERVER_NET_HTTP_PAGES_H_
