#include "server/client/connection.h"

#include <google/protobuf/util/json_util.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/common/grpc_deadline.h"
#include "server/common/token_text.h"
#include "server/net/server_address.h"

namespace kinora {
namespace {

constexpr int kApiPort = 8470;

constexpr FlagSpec kFlags[] = {
    {"server", "ADDRESS", "host, host:port or unix:PATH; default: $KINORA_SERVER, then 127.0.0.1:8470"},
    {"tls", "", "use TLS with the system's certificate authorities"},
    {"tls-ca", "FILE",
     "use TLS with these certificate authorities (PEM); default: $KINORA_TLS_CA, unless the server is a Unix socket or "
     "http://"},
    {"token-file", "FILE", "send the token in this file; default: $KINORA_TOKEN_FILE, then no token"},
    {"timeout", "DURATION", "time limit of each call, except streams; default: 30s"},
    {"json", "", "print answers to standard output as JSON, one object per line"},
};

absl::StatusOr<std::string> ReadText(absl::string_view name, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat(name, " ", path, ": cannot be read: ", std::strerror(errno)));
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

// Returns the flag of `kinora generate` that sets a request field such as "generation.num_frames"; "" if there is none.
std::string FlagOf(absl::string_view field) {
  static constexpr std::pair<const char*, const char*> kOtherNames[] = {
      {"num_frames", "frames"}, {"num_inference_steps", "steps"},         {"loras", "lora"},
      {"conditions", "image"},  {"preview_every_steps", "preview-every"}, {"ttl_seconds", "ttl"}};
  if (!absl::ConsumePrefix(&field, "generation.") && !absl::ConsumePrefix(&field, "output.")) return "";
  const std::string name(field.substr(0, field.find_first_of(".[")));
  static constexpr std::pair<const char*, const char*> kGuidanceTerms[] = {{"cfg_scale", "--cfg or "},
                                                                           {"stg_scale", "--stg or "},
                                                                           {"modality_scale", "--modality-scale or "},
                                                                           {"rescale", "--rescale or "}};
  for (const auto& [term, flag] : kGuidanceTerms) {
    if (absl::EndsWith(name, "_guidance") && absl::EndsWith(field, absl::StrCat(".", term))) {
      return absl::StrCat(flag, "--", absl::StrReplaceAll(name, {{"_", "-"}}));
    }
  }
  if (field == "video_guidance" || field == "audio_guidance") {
    return absl::StrCat("--cfg, --stg, --modality-scale, --rescale or --", absl::StrReplaceAll(name, {{"_", "-"}}));
  }
  for (const auto& [of_field, flag] : kOtherNames) {
    if (name == of_field) return absl::StrCat("--", flag);
  }
  return absl::StrCat("--", absl::StrReplaceAll(name, {{"_", "-"}}));
}

// `message` has been printed and may contain the violation.
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

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> CredentialsFor(const CommandLine& line,
                                                                         const ServerAddress& address) {
  const char* const from_environment = address.plain ? nullptr : std::getenv("KINORA_TLS_CA");
  const std::string authorities = line.Get("tls-ca").value_or(from_environment != nullptr ? from_environment : "");
  if (!address.tls && !line.Has("tls") && authorities.empty()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  if (!authorities.empty()) {
    KINORA_ASSIGN_OR_RETURN(options.pem_root_certs,
                            ReadText(line.Has("tls-ca") ? "--tls-ca" : "$KINORA_TLS_CA", authorities));
  }
  return grpc::SslCredentials(options);
}

grpc::ChannelArguments Arguments() {
  grpc::ChannelArguments arguments;
  // Backoff decides how long to wait; gRPC's backoff of up to two minutes would delay the return to a restarted server.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  // Detects a vanished server within half a minute.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  return arguments;
}

}  // namespace

absl::Span<const FlagSpec> ConnectionFlags() { return kFlags; }

absl::StatusOr<Connection> Connection::Open(const CommandLine& line, absl::string_view address_flag,
                                            absl::string_view environment, absl::string_view default_address) {
  // Between calls only gRPC's backup poller reads a server's answer to a connection attempt. Its default of 5 s would
  // delay the detection of a server that has just started. gRPC reads the variable when it is first used.
  setenv("GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS", "100", /*overwrite=*/0);
  Connection connection;
  KINORA_ASSIGN_OR_RETURN(const ServerAddress address, AddressOf(line, address_flag, environment, default_address));
  connection.address_ = address.target;
  KINORA_ASSIGN_OR_RETURN(const auto timeout, line.GetDuration("timeout"));
  connection.timeout_ = timeout.value_or(absl::Seconds(30));

  const char* token_environment = std::getenv("KINORA_TOKEN_FILE");
  const std::string token_file = line.Get("token-file").value_or(token_environment ? token_environment : "");
  if (!token_file.empty()) {
    const std::string source = line.Has("token-file") ? "--token-file" : "$KINORA_TOKEN_FILE";
    KINORA_ASSIGN_OR_RETURN(const std::string text, ReadText(source, token_file));
    const auto tokens = ParseTokens(text);
    if (!tokens.ok() || tokens->size() != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          source, " ", token_file, ": ",
          tokens.ok() ? "must hold exactly one token, on one line" : std::string(tokens.status().message())));
    }
    connection.token_ = tokens->front();
  }

  KINORA_ASSIGN_OR_RETURN(const auto credentials, CredentialsFor(line, address));
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
  context->set_deadline(GrpcDeadline(timeout_));
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
      details.clear_details();  // a detail has a type unknown to this build
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
