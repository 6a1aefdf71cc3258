#include "server/s3/aws_credentials.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"
#include "server/s3/s3_answers.h"

namespace kinora {
namespace {

constexpr absl::Duration kRenewBefore = absl::Minutes(5);  // their expiry
constexpr absl::Duration kLeastLife = absl::Minutes(1);
constexpr absl::Duration kRetry = absl::Seconds(30);           // after a renewal that failed
constexpr absl::Duration kReadEvery = absl::Minutes(1);        // keys without expiry: their file may have changed
constexpr absl::Duration kInstanceTimeout = absl::Seconds(1);  // to connect: elsewhere nothing has its address
constexpr char kContainer[] = "http://169.254.170.2";
constexpr char kInstance[] = "http://169.254.169.254";
constexpr char kRoles[] = "/latest/meta-data/iam/security-credentials/";

std::optional<std::string> ContentsOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string contents(std::istreambuf_iterator<char>(file), {});
  return file.bad() ? std::nullopt : std::optional<std::string>(std::move(contents));
}

std::string Trimmed(const std::string& text) { return std::string(absl::StripAsciiWhitespace(text)); }

// The keys in a reply of the metadata service.
absl::StatusOr<AwsKeys> ParseInstanceKeys(const std::string& body) {
  const auto json = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  const auto text = [&](const char* name) {
    return json.is_object() && json.contains(name) && json[name].is_string() ? json[name].get<std::string>() : "";
  };
  AwsKeys keys{.id = text("AccessKeyId"), .secret = text("SecretAccessKey"), .session_token = text("Token")};
  const bool timed = absl::ParseTime(absl::RFC3339_full, text("Expiration"), &keys.expiry, nullptr);
  if (timed && !keys.id.empty() && !keys.secret.empty()) return keys;
  return absl::UnavailableError("the metadata service sent no keys");
}

}  // namespace

std::string ProcessEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

absl::StatusOr<AwsKeys> ProfileKeys(const std::string& text, const std::string& profile) {
  AwsKeys keys;
  bool inside = false;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    const std::string stripped = Trimmed(line);
    if (stripped.empty() || stripped[0] == '#' || stripped[0] == ';') continue;
    if (stripped[0] == '[') {
      inside = Trimmed(stripped.substr(1, stripped.find(']') - 1)) == profile;
      continue;
    }
    const size_t equals = stripped.find('=');
    if (!inside || equals == std::string::npos) continue;
    const std::string name = Trimmed(stripped.substr(0, equals)), value = Trimmed(stripped.substr(equals + 1));
    if (name == "aws_access_key_id") keys.id = value;
    if (name == "aws_secret_access_key") keys.secret = value;
    if (name == "aws_session_token") keys.session_token = value;
  }
  if (!keys.id.empty() && !keys.secret.empty()) return keys;
  return absl::NotFoundError(absl::StrCat("no aws_access_key_id and aws_secret_access_key of profile ", profile));
}

AwsCredentials::AwsCredentials(std::string region, HttpClient& http, Clock& date, Environment environment)
    : region_(std::move(region)), http_(http), date_(date), environment_(std::move(environment)) {}

absl::StatusOr<AwsKeys> AwsCredentials::Get() {
  absl::MutexLock lock(&mu_);
  const absl::Time now = date_.Now();
  if (now < renew_) return keys_;
  absl::StatusOr<AwsKeys> keys = Read();
  if (!keys.ok()) {  // the old ones serve as long as they are valid
    if (keys_.id.empty() || now + kLeastLife >= keys_.expiry) return keys.status();
    renew_ = std::min(now + kRetry, keys_.expiry - kLeastLife);
    return keys_;
  }
  keys_ = *std::move(keys);
  had_keys_ = true;
  renew_ = std::min(keys_.expiry - kRenewBefore,
                    keys_.expiry == absl::InfiniteFuture() ? now + kReadEvery : absl::InfiniteFuture());
  return keys_;
}

void AwsCredentials::Refuse(const AwsKeys& keys) {
  absl::MutexLock lock(&mu_);
  if (keys_.id != keys.id || keys_.session_token != keys.session_token) return;
  keys_ = AwsKeys();
  renew_ = absl::InfinitePast();
}

absl::StatusOr<AwsKeys> AwsCredentials::Read() {
  AwsKeys keys{.id = environment_("AWS_ACCESS_KEY_ID"),
               .secret = environment_("AWS_SECRET_ACCESS_KEY"),
               .session_token = environment_("AWS_SESSION_TOKEN")};
  if (!keys.id.empty() && !keys.secret.empty()) return keys;
  if (const std::string file = environment_("AWS_WEB_IDENTITY_TOKEN_FILE"); !file.empty()) return FromWebIdentity(file);
  const std::string named = environment_("AWS_SHARED_CREDENTIALS_FILE");
  const std::string file = named.empty() ? absl::StrCat(environment_("HOME"), "/.aws/credentials") : named;
  absl::StatusOr<AwsKeys> found = FromFile(file);
  if (found.ok() || !named.empty()) return found;
  if (const std::string path = environment_("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); !path.empty()) {
    return FromContainer(absl::StrCat(kContainer, path));
  }
  if (const std::string url = environment_("AWS_CONTAINER_CREDENTIALS_FULL_URI"); !url.empty()) {
    return FromContainer(url);
  }
  if (environment_("AWS_EC2_METADATA_DISABLED") != "true") found = FromInstance();
  if (found.ok() || absl::IsCancelled(found.status())) return found;
  const std::string why = absl::IsUnavailable(found.status()) ? std::string(found.status().message()) : "";
  return absl::Status(
      why.empty() || !had_keys_ ? absl::StatusCode::kPermissionDenied : absl::StatusCode::kUnavailable,
      absl::StrCat("no keys for S3 were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                   "AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN, or AWS_SHARED_CREDENTIALS_FILE, or run on an "
                   "instance with a role",
                   why.empty() ? "" : ": ", why));
}

absl::StatusOr<AwsKeys> AwsCredentials::FromWebIdentity(const std::string& token_file) {
  const std::optional<std::string> token = ContentsOf(token_file);
  const std::string role = environment_("AWS_ROLE_ARN");
  if (!token.has_value() || role.empty()) {
    return absl::PermissionDeniedError(token.has_value() ? "AWS_ROLE_ARN must be set beside AWS_WEB_IDENTITY_TOKEN_FILE"
                                                         : "AWS_WEB_IDENTITY_TOKEN_FILE: the file cannot be read");
  }
  const std::string session = environment_("AWS_ROLE_SESSION_NAME");
  const std::string form = EncodeQuery({{"Action", "AssumeRoleWithWebIdentity"},
                                        {"Version", "2011-06-15"},
                                        {"RoleArn", role},
                                        {"RoleSessionName", session.empty() ? "kinora" : session},
                                        {"WebIdentityToken", Trimmed(*token)}});
  const std::string endpoint = environment_("AWS_ENDPOINT_URL_STS");
  HttpRequest request{.method = "POST",
                      .url = endpoint.empty() ? absl::StrCat("https://sts.", region_, ".amazonaws.com/") : endpoint,
                      .headers = {{"content-type", "application/x-www-form-urlencoded"}}};
  request.body.bytes = form;
  KINORA_ASSIGN_OR_RETURN(const HttpReply reply, http_.Send(request));
  if (reply.status == 200) return ParseAssumedRole(reply.body);
  const S3Error error = ParseS3Error(reply.body);
  const std::string why =
      absl::StrCat("AssumeRoleWithWebIdentity: ", error.code, ": ", error.message, " (HTTP ", reply.status, ")");
  return reply.status >= 500 ? absl::UnavailableError(why) : absl::PermissionDeniedError(why);
}

absl::StatusOr<AwsKeys> AwsCredentials::FromFile(const std::string& path) {
  const std::optional<std::string> text = ContentsOf(path);
  if (!text.has_value()) return absl::PermissionDeniedError(absl::StrCat(path, ": cannot be read"));
  const std::string profile = environment_("AWS_PROFILE");
  absl::StatusOr<AwsKeys> keys = ProfileKeys(*text, profile.empty() ? "default" : profile);
  if (!keys.ok()) return absl::PermissionDeniedError(absl::StrCat(path, ": ", std::string(keys.status().message())));
  return keys;
}

absl::StatusOr<std::string> AwsCredentials::AskInstance(const std::string& method, const std::string& path,
                                                        NamedValues headers) {
  const std::string endpoint = environment_("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  const HttpRequest request{.method = method,
                            .url = absl::StrCat(endpoint.empty() ? kInstance : endpoint, path),
                            .headers = std::move(headers),
                            .connect_timeout = kInstanceTimeout,
                            .idle_timeout = kInstanceTimeout,
                            .without_proxy = true};
  KINORA_ASSIGN_OR_RETURN(HttpReply reply, http_.Send(request));
  if (reply.status == 200) return std::move(reply.body);
  return absl::UnavailableError(absl::StrCat("the instance metadata service answered ", reply.status));
}

absl::StatusOr<AwsKeys> AwsCredentials::FromContainer(const std::string& url) {
  std::string token = environment_("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  if (const std::string file = environment_("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); !file.empty()) {
    token = Trimmed(ContentsOf(file).value_or(""));
  }
  HttpRequest request{.method = "GET", .url = url, .without_proxy = true};
  if (!token.empty()) request.headers.emplace_back("authorization", token);
  KINORA_ASSIGN_OR_RETURN(const HttpReply reply, http_.Send(request));
  if (reply.status == 200) return ParseInstanceKeys(reply.body);
  const std::string why = absl::StrCat("AWS_CONTAINER_CREDENTIALS: HTTP ", reply.status);
  return reply.status >= 500 ? absl::UnavailableError(why) : absl::PermissionDeniedError(why);
}

absl::StatusOr<AwsKeys> AwsCredentials::FromInstance() {
  KINORA_ASSIGN_OR_RETURN(const std::string token,
                          AskInstance("PUT", "/latest/api/token", {{"x-aws-ec2-metadata-token-ttl-seconds", "300"}}));
  const NamedValues with_token = {{"x-aws-ec2-metadata-token", token}};
  KINORA_ASSIGN_OR_RETURN(const std::string roles, AskInstance("GET", kRoles, with_token));
  const std::string role = Trimmed(roles.substr(0, roles.find('\n')));
  KINORA_ASSIGN_OR_RETURN(const std::string keys, AskInstance("GET", absl::StrCat(kRoles, role), with_token));
  return ParseInstanceKeys(keys);
}

}  // namespace kinora
