// Fetches files that requests name by URL, with libcurl, on one thread. It speaks HTTPS alone, to hosts of a list alone
// (input_url.h, also after each redirect), and not through proxies. A host that is listed by its name must have a
// public address: the address is checked when the connection to it is opened, so that no change of the name in DNS gets
// around it.
#ifndef KINORA_SERVER_GATEWAY_INPUT_FETCHER_H_
#define KINORA_SERVER_GATEWAY_INPUT_FETCHER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/gateway/byte_budget.h"
#include "server/gateway/frontend_client.h"
#include "server/gateway/input_url.h"
#include "server/gateway/spool_file.h"

namespace kinora {

class InputFetcher {
 public:
  struct Options {
    std::vector<AllowedHost> hosts;
    std::string authorities;  // PEM; "": the system's
    std::string scratch_folder;
    int64_t max_bytes = 0;                      // of one file
    ByteBudget& scratch_space;                  // of all files
    int max_fetches = 32;                       // at once
    absl::Duration timeout = absl::Minutes(2);  // of a fetch with its redirects
    absl::Duration connect_timeout = absl::Seconds(10);
    // Ends a fetch that is slower than this for so long (whole seconds).
    int slow_bytes_per_second = 1024;
    absl::Duration slow_time = absl::Seconds(20);
  };
  static constexpr int kMaxRedirects = 3;

  // InvalidArgument: the authorities are no certificates in PEM.
  static absl::StatusOr<std::unique_ptr<InputFetcher>> Start(Options options);
  ~InputFetcher();  // as Stop

  // Fetches a file into the scratch folder; it counts against scratch_space until it is destroyed. on_end runs once, on
  // the fetcher's thread or before the return, and must not block. InvalidArgument: what is wrong with the URL or what
  // its server answered, as the rest of a sentence about the field, without anything of the answer's content.
  // ResourceExhausted: too many fetches, or no space; with RetryInfo if another time may do. Cancelled.
  FrontendCallPtr Fetch(const std::string& url, OnReply<std::shared_ptr<const SpoolFile>> on_end);

  // Cancels all fetches, also later ones, and waits until their callbacks have run. Idempotent.
  void Stop();

 private:
  class Transfer;
  class Loop;

  explicit InputFetcher(std::shared_ptr<Loop> loop) : loop_(std::move(loop)) {}

  const std::shared_ptr<Loop> loop_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_INPUT_FETCHER_H_
