// HTTP/1.1 requests by libcurl, one at a time on each calling thread; connections are kept for later requests.
// Thread-safe. Proxies are those of the environment (https_proxy, no_proxy). Redirects are not followed.
#ifndef KINORA_SERVER_S3_HTTP_CLIENT_H_
#define KINORA_SERVER_S3_HTTP_CLIENT_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/s3/sigv4.h"

namespace kinora {

// Bytes to send: `bytes`, or `length` bytes of an open file from `offset`.
struct HttpBody {
  std::string_view bytes;
  int file = -1;  // a descriptor, not owned; -1: `bytes`
  int64_t offset = 0, length = 0;

  int64_t size() const { return file < 0 ? static_cast<int64_t>(bytes.size()) : length; }
};

struct HttpRequest {
  std::string method, url;
  NamedValues headers;
  HttpBody body;
  int64_t most_reply_bytes = 1 << 20;  // a longer body of a reply is an error
  absl::Duration connect_timeout = absl::Seconds(5);
  absl::Duration idle_timeout = absl::Seconds(20);  // without a byte in either direction
  bool without_proxy = false;
};

struct HttpReply {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;

  std::string Header(const std::string& name) const;  // or ""
};

class HttpClient {
 public:
  // ca_file: a file of certificates to trust instead of the system's; empty: the system's.
  explicit HttpClient(std::string ca_file = "");
  ~HttpClient();

  // Fails with Unavailable if no complete reply has arrived, and with Cancelled after Stop. Messages name no host.
  absl::StatusOr<HttpReply> Send(const HttpRequest& request) ABSL_LOCKS_EXCLUDED(mu_);
  // Ends requests under way and all later ones. Any thread.
  void Stop() { stopped_ = true; }

 private:
  class Handle;
  std::unique_ptr<Handle> Take() ABSL_LOCKS_EXCLUDED(mu_);

  const std::string ca_file_;
  std::atomic<bool> stopped_ = false;
  absl::Mutex mu_;
  std::vector<std::unique_ptr<Handle>> idle_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kinora

#endif  // KINORA_SERVER_S3_HTTP_CLIENT_H_
