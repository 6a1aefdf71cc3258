#include "server/tools/connection.h"

#include <google/protobuf/util/json_util.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/tools/server_address.h"

namespace kinora {
namespace {

constexpr int kApiPort = 8470;

constexpr FlagSpec kFlags[] = {
    {"server", "ADDRESS", "host, host:port or unix:PATH; absent: $KINORA_SERVER, then 127.0.0.1:8470"},
    {"tls", "", "TLS with the system's certificate authorities"},
    {"tls-ca", "FILE", "TLS with these certificate authorities (PEM)"},
    {"token-file", "FILE", "sends the token in this file; absent: $KINORA_TOKEN_FILE, then none"},
    {"timeout", "DURATION", "of a call that is not a stream; absent: 30s"},
    {"json", "", "answers as JSON, one object per line, on standard output"},
};

absl::StatusOr<std::string> ReadText(absl::string_view flag, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return absl::NotFoundError(absl::StrCat("--", flag, " ", path, ": cannot be read: ", std::strerror(errno)));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

const char* CodeName(grpc::StatusCode code) {
  static constexpr const char* kNames[] = {
      "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  return code >= 0 && static_cast<size_t>(code) < std::size(kNames) ? kNames[code] : "UNKNOWN";
}

// The flag of `kinora generate` that sets a field of a request, "generation.num_frames"; "" if none does so alone.
std::string FlagOf(absl::string_view field) {
  static constexpr std::pair<const char*, const char*> kOtherNames[] = {
      {"num_frames", "frames"}, {"num_inference_steps", "steps"},         {"loras", "lora"},
      {"conditions", "image"},  {"preview_every_steps", "preview-every"}, {"ttl_seconds", "ttl"}};
  if (!absl::ConsumePrefix(&field, "generation.") && !absl::ConsumePrefix(&field, "output.")) return "";
  const std::string name(field.substr(0, field.find_first_of(".[")));
  for (const auto& [of_field, flag] : kOtherNames) {
    if (name == of_field) return absl::StrCat("--", flag);
  }
  return absl::StrCat("--", absl::StrReplaceAll(name, {{"_", "-"}}));
}

// `message` was printed and may say it already.
void PrintViolation(const google::rpc::BadRequest::FieldViolation& violation, const std::string& message) {
  const std::string line = absl::StrCat(violation.field(), ": ", violation.description());
  const std::string flag = FlagOf(violation.field());
  if (!absl::StrContains(message, line)) std::fprintf(stderr, "  %s\n", line.c_str());
  if (!flag.empty()) std::fprintf(stderr, "  %s is set by %s\n", violation.field().c_str(), flag.c_str());
}

void PrintDetail(const google::protobuf::Any& any, const std::string& message) {
  google::rpc::BadRequest bad_request;
  google::rpc::RetryInfo retry;
  google::rpc::ErrorInfo info;
  google::rpc::PreconditionFailure precondition;
  google::rpc::QuotaFailure quota;
  if (any.UnpackTo(&bad_request)) {
    for (const auto& v : bad_request.field_violations()) PrintViolation(v, message);
  } else if (any.UnpackTo(&retry)) {
    std::fprintf(stderr, "  try again in %lld s\n", static_cast<long long>(retry.retry_delay().seconds()));
  } else if (any.UnpackTo(&info)) {
    std::string line = absl::StrCat("  reason: ", info.reason());
    for (const auto& [key, value] : info.metadata()) absl::StrAppend(&line, " ", key, "=", value);
    std::fprintf(stderr, "%s\n", line.c_str());
  } else if (any.UnpackTo(&precondition)) {
    for (const auto& v : precondition.violations()) {
      std::fprintf(stderr, "  %s: %s\n", v.subject().c_str(), v.description().c_str());
    }
  } else if (any.UnpackTo(&quota)) {
    for (const auto& v : quota.violations()) {
      std::fprintf(stderr, "  %s: %s\n", v.subject().c_str(), v.description().c_str());
    }
  }
}

absl::StatusOr<ServerAddress> AddressOf(const CommandLine& line, absl::string_view flag, absl::string_view environment,
                                        absl::string_view default_address) {
  const char* from_environment = std::getenv(std::string(environment).c_str());
  const bool by_environment = !line.Has(flag) && from_environment != nullptr;
  const std::string text = by_environment ? from_environment : line.Get(flag).value_or(std::string(default_address));
  absl::StatusOr<ServerAddress> address = ParseServerAddress(text, flag == "server" ? kApiPort : 0);
  if (address.ok()) return address;
  return absl::InvalidArgumentError(absl::StrCat(by_environment ? "$" : "--", by_environment ? environment : flag, " ",
                                                 text, ": ", std::string(address.status().message())));
}

grpc::ChannelArguments Arguments() {
  grpc::ChannelArguments arguments;
  // A client that resumes a watch decides itself how long to wait; gRPC's two minutes would keep a returning server
  // unseen.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  // One that vanished without a word is found within half a minute.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  return arguments;
}

}  // namespace

absl::Span<const FlagSpec> ConnectionFlags() { return kFlags; }

absl::StatusOr<Connection> Connection::Open(const CommandLine& line, absl::string_view address_flag,
                                            absl::string_view environment, absl::string_view default_address) {
  // Between calls nobody but gRPC's backup poller reads what a server answers to an attempt to connect. Its 5 s would
  // keep one that has just started unseen for so long. Read when gRPC is first used.
  setenv("GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS", "100", /*overwrite=*/0);
  Connection connection;
  KINORA_ASSIGN_OR_RETURN(const ServerAddress address, AddressOf(line, address_flag, environment, default_address));
  connection.address_ = address.target;
  KINORA_ASSIGN_OR_RETURN(const auto timeout, line.GetDuration("timeout"));
  connection.timeout_ = timeout.value_or(absl::Seconds(30));

  const char* token_environment = std::getenv("KINORA_TOKEN_FILE");
  const std::string token_file = line.Get("token-file").value_or(token_environment ? token_environment : "");
  if (!token_file.empty()) {
    KINORA_ASSIGN_OR_RETURN(connection.token_, ReadText("token-file", token_file));
    absl::StripAsciiWhitespace(&connection.token_);
    if (connection.token_.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("--token-file ", token_file, ": the file is empty"));
    }
  }

  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (address.tls || line.Has("tls") || line.Has("tls-ca")) {
    grpc::SslCredentialsOptions options;
    if (const auto path = line.Get("tls-ca")) {
      KINORA_ASSIGN_OR_RETURN(options.pem_root_certs, ReadText("tls-ca", *path));
    }
    credentials = grpc::SslCredentials(options);
  }
  connection.channel_ = grpc::CreateCustomChannel(connection.address_, credentials, Arguments());
  return connection;
}

std::unique_ptr<grpc::ClientContext> Connection::StreamContext() const {
  auto context = std::make_unique<grpc::ClientContext>();
  if (!token_.empty()) context->AddMetadata("authorization", absl::StrCat("Bearer ", token_));
  return context;
}

std::unique_ptr<grpc::ClientContext> Connection::UnaryContext() const {
  auto context = StreamContext();
  context->set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(timeout_));
  return context;
}

bool IsUnreachable(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
}

ExitStatus ExitStatusOf(const grpc::Status& status) {
  if (status.ok()) return kSuccess;
  if (IsUnreachable(status)) return kUnreachable;
  switch (status.error_code()) {
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::UNKNOWN:
    case grpc::StatusCode::DATA_LOSS:
    case grpc::StatusCode::ABORTED:
    case grpc::StatusCode::CANCELLED:
      return kError;
    default:
      return kRefused;
  }
}

ExitStatus ReportError(const grpc::Status& status, bool json) {
  google::rpc::Status details;
  details.ParseFromString(status.error_details());
  details.set_code(status.error_code());
  details.set_message(status.error_message());
  if (json) {
    std::string text;
    if (!google::protobuf::util::MessageToJsonString(details, &text).ok()) {
      details.clear_details();  // a detail of a type that this build does not know
      (void)google::protobuf::util::MessageToJsonString(details, &text);
    }
    std::printf("{\"error\":%s}\n", text.c_str());
    std::fflush(stdout);
    return ExitStatusOf(status);
  }
  const ExitStatus exit_status = ExitStatusOf(status);
  const char* what = exit_status == kUnreachable ? "unreachable" : exit_status == kRefused ? "refused" : "error";
  const std::string message =
      exit_status == kUnreachable ? ExplainUnreachable(status.error_message()) : status.error_message();
  std::fprintf(stderr, "kinora: %s: %s: %s\n", what, CodeName(status.error_code()), message.c_str());
  for (const google::protobuf::Any& detail : details.details()) PrintDetail(detail, message);
  return exit_status;
}

}  // namespace kinora
