// How long the server waits for a client.
#ifndef KINORA_SERVER_GATEWAY_HTTP_TIMES_H_
#define KINORA_SERVER_GATEWAY_HTTP_TIMES_H_

#include "absl/time/time.h"

namespace kinora {

struct HttpTimes {
  absl::Duration handshake = absl::Seconds(10);  // of TLS
  absl::Duration head = absl::Seconds(10);       // from its first byte to its last
  absl::Duration idle = absl::Seconds(75);       // between two requests
  absl::Duration body = absl::Seconds(30);       // for each 16 KiB of a body while a handler waits for it
  absl::Duration write = absl::Seconds(60);      // for each 64 KiB of a reply
  absl::Duration linger = absl::Seconds(3);      // for the client to close after the last reply
};

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_HTTP_TIMES_H_
