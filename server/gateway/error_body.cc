#include "server/gateway/error_body.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "google/rpc/error_details.pb.h"
#include "server/common/status_details.h"
#include "server/common/timestamps.h"
#include "server/gateway/create_fields.h"
#include "server/gateway/field_json.h"

namespace kinora {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kPollSeconds = 2;  // Retry-After of a clip that is not ready, without an estimate
constexpr double kMostPollSeconds = 30;

struct ReasonStatus {
  std::string_view reason;
  int http;
};
// Reasons whose status differs from that of their code.
constexpr ReasonStatus kReasons[] = {{kMalformedBody, 400},     {kBodyTooLarge, 413}, {"EXPIRED", 410},
                                     {"MODEL_NOT_LOADED", 404},  // 409 would be retried by the OpenAI client
                                     {"NO_BUCKET", 400},        {"DISK_FULL", 507},   {"GPU_OOM", 507},
                                     {"WORKER_GROUP_LOST", 500}};

int StatusOfCode(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return 422;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAborted:
      return 409;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    case absl::StatusCode::kCancelled:
      return 499;
    default:
      return 500;
  }
}

int StatusOf(const absl::Status& status) {
  const std::string reason = ErrorReason(status);
  for (const ReasonStatus& row : kReasons) {
    if (reason == row.reason) return row.http;
  }
  // gRPC's own limit of a message has no reason.
  if (absl::IsResourceExhausted(status) && absl::StrContains(status.message(), "larger than max")) return 413;
  return StatusOfCode(status.code());
}

std::string_view TypeOf(int http) {
  if (http == 401) return "authentication_error";
  if (http == 403) return "permission_error";
  if (http == 404 || http == 410) return "not_found_error";
  if (http == 429) return "rate_limit_error";
  return http >= 500 ? "server_error" : "invalid_request_error";
}

template <typename Detail>
bool FindDetail(const absl::Status& status, Detail& detail) {
  const auto payload = status.GetPayload(absl::StrCat("type.googleapis.com/", Detail::descriptor()->full_name()));
  return payload.has_value() && detail.ParseFromString(std::string(*payload));
}

// The message with the field in front, if there is one, under its name in HTTP.
std::string RenamedMessage(const std::string& message, std::string& param) {
  const std::string path = message.substr(0, message.find(": "));
  const bool names = path.size() < message.size() && path.find(' ') == std::string::npos;
  if (!names || FieldOfPath(path) == path) return message;
  param = FieldOfPath(path);
  return param + message.substr(path.size());
}

std::string Body(int http, std::string_view code, const std::string& message, const std::string& param,
                 const FieldViolations& fields) {
  Json listed = Json::array();
  for (const FieldViolation& field : fields) {
    listed.push_back({{"field", field.field}, {"message", field.description}});
  }
  const Json body = {{"error",
                      {{"message", message},
                       {"type", TypeOf(http)},
                       {"param", param.empty() ? Json(nullptr) : Json(param)},
                       {"code", code},
                       {"fields", std::move(listed)}}},
                     {"detail", message}};
  return ToText(body);
}

std::string WholeSeconds(double seconds) {
  return absl::StrCat(static_cast<int64_t>(std::ceil(std::max(seconds, 1.0))));
}

HttpError NotReady(const v1::Video& video) {
  const bool running = video.state() == v1::Video::RUNNING || video.state() == v1::Video::FINALIZING;
  HttpError error = MakeHttpError(404, "not_ready", running ? "Generation is still in-progress" : "The job is queued");
  const double remaining =
      video.progress().has_remaining() ? absl::ToDoubleSeconds(FromProto(video.progress().remaining())) : kPollSeconds;
  error.headers.emplace_back("Retry-After", WholeSeconds(std::min(remaining, kMostPollSeconds)));
  return error;
}

// The index of the artifact; -1: none.
int FindArtifact(const v1::Video& video, std::string_view variant) {
  for (int i = 0; i < video.artifacts_size(); ++i) {
    const std::string& type = video.artifacts(i).media_type();
    const bool trace = type == "application/json", thumbnail = type == "image/jpeg";
    if (variant == "trace" ? trace : variant == "thumbnail" ? thumbnail : !trace && !thumbnail) return i;
  }
  return -1;
}

// The violations under the names of fields.
FieldViolations RenamedViolations(const absl::Status& status) {
  FieldViolations fields = Violations(status);
  for (FieldViolation& field : fields) field.field = FieldOfPath(field.field);
  return fields;
}

}  // namespace

std::string ErrorCode(const absl::Status& status) {
  const std::string reason = ErrorReason(status);
  return absl::AsciiStrToLower(reason.empty() ? absl::StatusCodeToString(status.code()) : reason);
}

std::string ErrorMessage(const absl::Status& status) {
  std::string param;
  const FieldViolations fields = RenamedViolations(status);
  return fields.empty() ? RenamedMessage(std::string(status.message()), param) : JoinViolations(fields);
}

HttpError ToHttpError(const absl::Status& original) {
  const absl::Status status = WithoutDirectories(original);
  const FieldViolations fields = RenamedViolations(status);
  HttpError error{.status = StatusOf(status), .body = "", .headers = {}};
  std::string param = fields.empty() ? "" : fields[0].field;
  if (fields.empty()) RenamedMessage(std::string(status.message()), param);
  error.body = Body(error.status, ErrorCode(status), ErrorMessage(status), param, fields);
  if (google::rpc::RetryInfo retry; FindDetail(status, retry)) {
    const double delay = absl::ToDoubleSeconds(FromProto(retry.retry_delay()));
    error.headers.emplace_back("Retry-After", WholeSeconds(delay));
  }
  if (error.status == 401) error.headers.emplace_back("WWW-Authenticate", "Bearer");
  return error;
}

HttpError MakeHttpError(int status, std::string_view code, std::string_view message, std::string_view param) {
  FieldViolations fields;
  if (!param.empty()) fields.push_back({std::string(param), std::string(message)});
  HttpError error{.status = status, .body = "", .headers = {}};
  error.body = Body(status, code, std::string(message), std::string(param), fields);
  if (status == 401) error.headers.emplace_back("WWW-Authenticate", "Bearer");
  return error;
}

std::variant<int, HttpError> ChooseContent(const v1::Video& video, std::string_view variant) {
  constexpr std::string_view kVariants[] = {"", "video", "thumbnail", "spritesheet", "trace"};
  if (std::find(std::begin(kVariants), std::end(kVariants), variant) == std::end(kVariants)) {
    return MakeHttpError(422, "invalid_argument", "must be video, thumbnail or trace", "variant");
  }
  if (video.state() == v1::Video::CANCELLED) return MakeHttpError(422, "cancelled", "The job was cancelled");
  if (video.state() == v1::Video::FAILED) {
    return MakeHttpError(422, "failed", absl::StrCat("The job failed: ", video.error().message()));
  }
  if (video.state() != v1::Video::COMPLETED) return NotReady(video);
  if (video.artifacts_size() == 0) return MakeHttpError(410, "expired", "The clip has expired");
  const int found = variant == "spritesheet" ? -1 : FindArtifact(video, variant);
  if (found >= 0) return found;
  return MakeHttpError(404, "no_such_variant", absl::StrCat("This video has no ", std::string(variant)), "variant");
}

}  // namespace kinora
