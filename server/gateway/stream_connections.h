// The connections to one frontend that carry its streams: events and downloads. A frontend takes 128 calls per
// connection, and gRPC lets further calls wait without an error, so a connection carries at most kMostStreams; another
// one is opened while all are full, and kept. Calls with one reply have a connection of their own and never wait for a
// stream.
#ifndef KINORA_SERVER_GATEWAY_STREAM_CONNECTIONS_H_
#define KINORA_SERVER_GATEWAY_STREAM_CONNECTIONS_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <list>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kinora/v1/video_generation.grpc.pb.h"

namespace kinora {

class StreamConnections {  // thread-safe
 public:
  // Opens a connection that no other channel shares.
  using Connect = std::function<std::shared_ptr<grpc::Channel>()>;
  using Lease = std::shared_ptr<v1::VideoGeneration::Stub>;
  static constexpr int kMostStreams = 100;

  explicit StreamConnections(Connect connect) : connect_(std::move(connect)) {}
  ~StreamConnections();  // waits until all leases are released

  // Returns a stub for one stream. Release it once the stream has ended.
  Lease Take() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Connection {
    std::unique_ptr<v1::VideoGeneration::Stub> stub;
    int streams = 0;
  };
  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Release(Connection& connection) ABSL_LOCKS_EXCLUDED(mu_);

  const Connect connect_;
  absl::Mutex mu_;
  // Never shrinks: gRPC's own threads release leases, and must not destroy a channel.
  std::list<Connection> connections_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_STREAM_CONNECTIONS_H_
