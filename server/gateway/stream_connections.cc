#include "server/gateway/stream_connections.h"

#include <algorithm>

namespace kinora {

StreamConnections::~StreamConnections() {
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(this, &StreamConnections::Idle));
}

bool StreamConnections::Idle() const {
  return std::all_of(connections_.begin(), connections_.end(),
                     [](const Connection& connection) { return connection.streams == 0; });
}

StreamConnections::Lease StreamConnections::Take() {
  absl::MutexLock lock(&mu_);
  auto found = std::find_if(connections_.begin(), connections_.end(),
                            [](const Connection& connection) { return connection.streams < kMostStreams; });
  if (found == connections_.end()) {
    found = connections_.insert(found, {.stub = v1::VideoGeneration::NewStub(connect_())});
  }
  found->streams += 1;
  Connection& connection = *found;
  return {connection.stub.get(), [this, &connection](v1::VideoGeneration::Stub*) { Release(connection); }};
}

void StreamConnections::Release(Connection& connection) {
  absl::MutexLock lock(&mu_);
  connection.streams -= 1;
}

}  // namespace kinora
