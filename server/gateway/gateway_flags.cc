#include "server/gateway/gateway_flags.h"

#include <cstdlib>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

constexpr FlagSpec kFlags[] = {
    {"address", "ADDRESS", "where to serve: host:port or unix:PATH; default: 127.0.0.1:8472"},
    {"frontend", "ADDRESS",
     "the frontend's address: host, host:port or unix:PATH; repeat it for several frontends; default: $KINORA_SERVER, "
     "then 127.0.0.1:8470"},
    {"admin", "ADDRESS",
     "a frontend's admin address, for GET /v1/groups: host:port or unix:PATH; repeat it for several frontends; clients "
     "need a token that the frontends accept; default: no list of groups"},
    {"frontend-tls", "", "use TLS to the frontends, with the system's certificate authorities"},
    {"frontend-tls-ca", "FILE",
     "use TLS to the frontends, with these certificate authorities (PEM); default: $KINORA_TLS_CA, unless the frontend "
     "is a Unix socket or http://"},
    {"host", "NAME",
     "a name or address, without a port, by which clients reach this server; repeat it for several; requests with "
     "another Host are rejected, except localhost, the loopback addresses and the address of the connection"},
    {"trusted-proxy", "ADDRESS",
     "the address of a proxy in front of this server, or a range such as 10.0.0.0/8; repeat it for several; limits per "
     "client then apply to the clients that X-Forwarded-For names"},
    {"tls-certificate-file", "FILE", "serve TLS with this certificate chain (PEM)"},
    {"tls-key-file", "FILE", "the private key of the certificate (PEM)"},
    {"tls-client-ca-file", "FILE", "clients must present a certificate of this authority (PEM)"},
    {"insecure", "", "allow an address other than loopback without TLS, for example behind a proxy that has it"},
    {"scratch-directory", "FOLDER", "where uploads are kept until they are complete; default: $TMPDIR, or /tmp"},
    {"input-url-host", "HOST",
     "a host from which requests may name files by https:// URL: a name, *.DOMAIN for all names below it, or an IP "
     "address, with :PORT unless it is 443; repeat it for several; a host given by name must have a public address; "
     "default: none, and URLs are rejected"},
    {"input-url-ca", "FILE", "the certificate authorities of those hosts (PEM); default: the system's"},
    {"input-url-timeout", "DURATION", "time limit for fetching one such file; default: 2m"},
    {"max-upload-bytes", "BYTES", "the maximum size of one file, uploaded or fetched; default: 1GiB"},
    {"max-scratch-bytes", "BYTES", "the maximum size of all files in scratch-directory together; default: 8GiB"},
    {"max-body-memory-bytes", "BYTES", "the maximum memory for bodies of requests, without files; default: 256MiB"},
    {"max-connections", "N", "the maximum number of open connections; default: 1000"},
    {"max-connections-per-client", "N", "the same per client address; default: 250"},
    {"max-requests-per-second", "N",
     "the average rate of requests per client address; twice as many may come at once; 0: no limit; default: 200"},
    {"timeout", "DURATION", "time limit of each call to a frontend, except streams; default: 30s"},
    {"link-key-file", "FILE",
     "a file of at least 32 random bytes, the same for all gateways behind one address: with it each accepts the links "
     "to clips that another has made; default: a random key, so that links end with the process"},
    {"drain-grace", "DURATION", "how long requests may take after SIGTERM; default: 20s"},
    {"threads", "N", "the number of threads that serve connections; default: 2"},
    {"log-format", "text|json", "the format of the log; default: text"},
};

constexpr FlagSpec kFrontendsFlags[] = {
    {"lifeline-fd", "N", "a pipe whose end of file means that the frontend has exited"},
    {"listen-fd", "N", "a socket that listens at `address`"},
};

absl::Status ReadDescriptors(const CommandLine& line, GatewayFlags& flags) {
  KINORA_ASSIGN_OR_RETURN(const auto lifeline, line.GetInt("lifeline-fd", 3, std::numeric_limits<int>::max()));
  flags.lifeline_fd = static_cast<int>(lifeline.value_or(0));
  for (const std::string& text : line.GetAll("listen-fd")) {
    if (!absl::SimpleAtoi(text, &flags.listen_fds.emplace_back())) {
      return absl::InvalidArgumentError(absl::StrCat("--listen-fd: \"", text, "\" is not a number"));
    }
  }
  return absl::OkStatus();
}

absl::Status Read(const CommandLine& line, const char* name, int minimum, int& value) {
  KINORA_ASSIGN_OR_RETURN(const auto given, line.GetInt(name, minimum, std::numeric_limits<int>::max()));
  if (given) value = static_cast<int>(*given);
  return absl::OkStatus();
}

absl::Status Read(const CommandLine& line, const char* name, int64_t& bytes) {
  KINORA_ASSIGN_OR_RETURN(const auto given, line.GetBytes(name));
  bytes = given.value_or(bytes);
  return absl::OkStatus();
}

absl::Status Read(const CommandLine& line, const char* name, absl::Duration& duration) {
  KINORA_ASSIGN_OR_RETURN(const auto given, line.GetDuration(name));
  duration = given.value_or(duration);
  return absl::OkStatus();
}

absl::Status ReadLimits(const CommandLine& line, GatewayFlags& flags) {
  KINORA_RETURN_IF_ERROR(Read(line, "max-upload-bytes", flags.max_upload_bytes));
  KINORA_RETURN_IF_ERROR(Read(line, "max-scratch-bytes", flags.max_scratch_bytes));
  KINORA_RETURN_IF_ERROR(Read(line, "max-body-memory-bytes", flags.max_body_memory_bytes));
  KINORA_RETURN_IF_ERROR(Read(line, "max-connections", 1, flags.max_connections));
  KINORA_RETURN_IF_ERROR(Read(line, "max-connections-per-client", 1, flags.max_connections_per_client));
  KINORA_RETURN_IF_ERROR(Read(line, "threads", 1, flags.threads));
  KINORA_RETURN_IF_ERROR(Read(line, "timeout", flags.timeout));
  if (flags.timeout == absl::ZeroDuration()) return absl::InvalidArgumentError("--timeout: must be more than 0");
  KINORA_RETURN_IF_ERROR(Read(line, "drain-grace", flags.drain_grace));
  KINORA_RETURN_IF_ERROR(Read(line, "input-url-timeout", flags.input_url_timeout));
  KINORA_ASSIGN_OR_RETURN(const auto rate, line.GetDouble("max-requests-per-second"));
  flags.max_requests_per_second = rate.value_or(flags.max_requests_per_second);
  if (flags.max_requests_per_second >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError("--max-requests-per-second: must be 0 or more");
}

absl::Status ReadTls(const CommandLine& line, GatewayFlags& flags) {
  flags.tls.set_certificate_file(line.Get("tls-certificate-file").value_or(""));
  flags.tls.set_key_file(line.Get("tls-key-file").value_or(""));
  flags.tls.set_client_ca_file(line.Get("tls-client-ca-file").value_or(""));
  const bool certificate = !flags.tls.certificate_file().empty();
  if (certificate != !flags.tls.key_file().empty()) {
    return absl::InvalidArgumentError("--tls-certificate-file and --tls-key-file: give both or neither");
  }
  if (!certificate && !flags.tls.client_ca_file().empty()) {
    return absl::InvalidArgumentError("--tls-client-ca-file: needs --tls-certificate-file");
  }
  return absl::OkStatus();
}

std::string Environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

}  // namespace

absl::Span<const FlagSpec> GatewayFlagSpecs() {
  static const auto* const flags = [] {
    auto* all = new std::vector<FlagSpec>(StandardFlags().begin(), StandardFlags().end());
    all->insert(all->end(), std::begin(kFlags), std::end(kFlags));
    return all;
  }();
  return *flags;
}

namespace {

std::vector<FlagSpec> AllFlags() {
  const auto shown = GatewayFlagSpecs();
  std::vector<FlagSpec> flags(shown.begin(), shown.end());
  flags.insert(flags.end(), std::begin(kFrontendsFlags), std::end(kFrontendsFlags));
  return flags;
}

}  // namespace

absl::StatusOr<GatewayFlags> ParseGatewayFlags(absl::Span<const std::string> arguments) {
  KINORA_ASSIGN_OR_RETURN(const CommandLine line, CommandLine::Parse(AllFlags(), arguments));
  GatewayFlags flags;
  flags.help = line.Has("help");
  flags.version = line.Has("version");
  if (flags.help || flags.version) return flags;
  if (!line.operands().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(line.operands().front(), ": kinora-gateway takes only flags"));
  }
  flags.address = line.Get("address").value_or(flags.address);
  flags.frontends = line.GetAll("frontend");
  if (flags.frontends.empty()) flags.frontends = {Environment("KINORA_SERVER", "127.0.0.1:8470")};
  flags.admins = line.GetAll("admin");
  flags.frontend_tls = line.Has("frontend-tls") || line.Has("frontend-tls-ca");
  flags.frontend_tls_ca = line.Get("frontend-tls-ca").value_or(Environment("KINORA_TLS_CA", ""));
  flags.hosts = line.GetAll("host");
  flags.trusted_proxies = line.GetAll("trusted-proxy");
  flags.insecure = line.Has("insecure");
  flags.input_url_hosts = line.GetAll("input-url-host");
  flags.input_url_ca = line.Get("input-url-ca").value_or("");
  flags.scratch_folder = line.Get("scratch-directory").value_or(Environment("TMPDIR", "/tmp"));
  flags.link_key_file = line.Get("link-key-file").value_or("");
  const std::string format = line.Get("log-format").value_or("text");
  if (format != "text" && format != "json") return absl::InvalidArgumentError("--log-format: must be text or json");
  flags.json_log = format == "json";
  KINORA_RETURN_IF_ERROR(ReadDescriptors(line, flags));
  KINORA_RETURN_IF_ERROR(ReadTls(line, flags));
  KINORA_RETURN_IF_ERROR(ReadLimits(line, flags));
  return flags;
}

}  // namespace kinora
