#include "server/client/health_command.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "grpc/health/v1/health.pb.h"
#include "server/client/api_call.h"
#include "server/client/commands.h"
#include "server/client/printing.h"
#include "server/client/serving_wait.h"
#include "server/common/grpc_deadline.h"

namespace kinora {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// One Check with the deadline `end` on the steady clock, or --timeout if that is earlier.
grpc::Status Check(const Connection& connection, absl::Time end, const HealthCheckRequest& request,
                   HealthCheckResponse& reply) {
  grpc::TemplatedGenericStub<HealthCheckRequest, HealthCheckResponse> stub(connection.channel());
  const auto context = connection.UnaryContext();
  context->set_deadline(std::min(context->deadline(), GrpcDeadline(end - Clock::Steady().Now())));
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(context.get(), "/grpc.health.v1.Health/Check", request, &queue);
  call->StartCall();
  grpc::Status status;
  call->Finish(&reply, &status, nullptr);
  void* tag;
  bool ok;
  queue.Next(&tag, &ok);
  return status;
}

std::string NotServing(const std::string& service) {
  return absl::StrCat(service.empty() ? "the server" : service, " is not serving");
}

ExitStatus Tell(const CommandLine& line, const grpc::Status& status, const std::string& service,
                const HealthCheckResponse& reply) {
  if (!status.ok()) return ReportError(status, line.Has("json"));
  PrintLine(line.Has("json") ? ToJson(reply) : HealthCheckResponse::ServingStatus_Name(reply.status()));
  if (reply.status() == HealthCheckResponse::SERVING) return kSuccess;
  std::fprintf(stderr, "kinora: %s\n", NotServing(service).c_str());
  return kUnreachable;
}

}  // namespace

std::vector<FlagSpec> HealthFlags() {
  return {{"service", "NAME",
           "kinora.v1.VideoGeneration: at least one group takes jobs; kinora.group.ID: group ID takes jobs; default: "
           "the server answers and is not draining"},
          {"wait", "DURATION", "wait up to this long until it serves; default: check once"}};
}

ExitStatus Health(const CommandLine& line) {
  Halt never;  // a signal ends the process
  const auto connection = OpenApi(line);
  if (!connection.ok()) return ReportLocalError(connection.status());
  const auto wait = line.GetDuration("wait");
  if (!wait.ok()) return ReportLocalError(wait.status());
  HealthCheckRequest request;
  request.set_service(line.Get("service").value_or(""));
  HealthCheckResponse reply;
  const absl::Time end = *wait ? Clock::Steady().Now() + **wait : absl::InfiniteFuture();
  grpc::Status answer;
  const auto check = [&] {
    reply.Clear();
    answer = Check(*connection, end, request, reply);
    // A group of this name may still join.
    return answer.error_code() == grpc::StatusCode::NOT_FOUND ? grpc::Status::OK : answer;
  };
  const auto lack = [&]() -> std::string {
    if (!answer.ok()) return answer.error_message();
    return reply.status() == HealthCheckResponse::SERVING ? "" : NotServing(request.service());
  };
  (void)CallWhenServing(*connection, wait->value_or(absl::ZeroDuration()), never, check, lack);
  return Tell(line, answer, request.service(), reply);
}

}  // namespace kinora
