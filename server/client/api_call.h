// Makes one unary call to a Kinora server, and opens the connection that commands use.
#ifndef KINORA_SERVER_CLIENT_API_CALL_H_
#define KINORA_SERVER_CLIENT_API_CALL_H_

#include <grpcpp/grpcpp.h>

#include "absl/status/statusor.h"
#include "engine/base/command_line.h"
#include "server/client/connection.h"
#include "server/client/halt.h"

namespace kinora {

inline absl::StatusOr<Connection> OpenApi(const CommandLine& line) {
  return Connection::Open(line, "server", "KINORA_SERVER", "127.0.0.1:8470");
}

// Calls `method` of a new stub of Service on `connection`. Returns CANCELLED once `halt` is raised.
template <typename Service, typename Request, typename Reply>
grpc::Status Call(const Connection& connection,
                  grpc::Status (Service::Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                  const Request& request, Reply* reply, Halt& halt) {
  const auto stub = Service::NewStub(connection.channel());
  const auto context = connection.UnaryContext();
  const Halt::Call call(halt, *context);
  return ((*stub).*method)(context.get(), request, reply);
}
template <typename Service, typename Request, typename Reply>
grpc::Status Call(const Connection& connection,
                  grpc::Status (Service::Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                  const Request& request, Reply* reply) {
  Halt never;
  return Call<Service>(connection, method, request, reply, never);
}

}  // namespace kinora

#endif  // KINORA_SERVER_CLIENT_API_CALL_H_
