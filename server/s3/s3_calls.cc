#include "server/s3/s3_calls.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

bool Passes(int status, const std::string& code) {
  static const std::set<std::string> passing = {"InternalError",
                                                "SlowDown",
                                                "ServiceUnavailable",
                                                "RequestTimeout",
                                                "OperationAborted",
                                                "ConditionalRequestConflict",
                                                "Throttling",
                                                "RequestTimeTooSkewed",
                                                "XAmzContentSHA256Mismatch",
                                                "HTTP404"};  // not S3's: a proxy may have sent it
  return status == 408 || status == 429 || (status >= 500 && status != 501 && status != 507) || passing.contains(code);
}

bool IsAboutKeys(const std::string& code) {
  return code == "ExpiredToken" || code == "InvalidAccessKeyId" || code == "InvalidToken" ||
         code == "TokenRefreshRequired";
}

bool IsAboutBucket(const std::string& code) {
  return code == "NoSuchBucket" || code == "PermanentRedirect" || code == "TemporaryRedirect" ||
         code == "AuthorizationHeaderMalformed" || code == "IllegalLocationConstraintException";
}

absl::StatusCode CodeOf(int status, const std::string& code) {
  if (IsAboutBucket(code)) return absl::StatusCode::kFailedPrecondition;
  if (status == 301 || status == 307) return absl::StatusCode::kFailedPrecondition;
  if (code == "NotImplemented" || status == 501) return absl::StatusCode::kUnimplemented;
  if (code == "QuotaExceeded" || status == 507) return absl::StatusCode::kResourceExhausted;
  if (code == "NoSuchKey" || code == "NoSuchUpload") return absl::StatusCode::kNotFound;
  if (status == 412) return absl::StatusCode::kAlreadyExists;
  if (status == 416) return absl::StatusCode::kOutOfRange;
  if (status == 401 || status == 403 || IsAboutKeys(code)) return absl::StatusCode::kPermissionDenied;
  return Passes(status, code) ? absl::StatusCode::kUnavailable : absl::StatusCode::kInternal;
}

std::string NameOf(const S3Call& call) {
  return call.key.empty() ? std::string(call.operation) : absl::StrCat(call.operation, " ", call.key);
}

}  // namespace

S3Calls::S3Calls(S3Location location, HttpClient& http, AwsCredentials& credentials, Clocks clocks, S3Observer observer,
                 S3Retries retries)
    : location_(std::move(location)),
      http_(http),
      credentials_(credentials),
      clocks_(clocks),
      observer_(std::move(observer)),
      retries_(retries),
      logged_(absl::Seconds(10), clocks.steady) {}

void S3Calls::Stop() {
  http_.Stop();
  absl::MutexLock lock(&mu_);
  stopped_ = true;
}

bool S3Calls::Wait(absl::Duration duration) {
  absl::MutexLock lock(&mu_);
  return !clocks_.steady.AwaitUntil(mu_, absl::Condition(&stopped_), clocks_.steady.Now() + duration);
}

std::string S3Calls::UrlOf(const std::string& path, const std::string& query) const {
  return absl::StrCat(location_.scheme, "://", location_.host, UriEncode(path, /*keep_slash=*/true),
                      query.empty() ? "" : "?", query);
}

absl::StatusOr<HttpReply> S3Calls::Make(const S3Call& call) {
  absl::BitGen random;
  const bool patient = call.patient_until > absl::InfinitePast();
  const absl::Time end = patient ? call.patient_until : clocks_.steady.Now() + retries_.give_up;
  absl::Duration wait = retries_.first_wait;
  for (int i = 1;; ++i) {
    Attempt attempt = Try(call);
    if (attempt.status.ok()) return std::move(attempt.reply);
    if (!attempt.again) return LogError(call, i, attempt.status);
    const absl::Duration drawn = wait * absl::Uniform(random, 0.5, 1.0);
    if ((i == retries_.attempts && !patient) || clocks_.steady.Now() + drawn > end) {
      return LogError(call, i, attempt.status);
    }
    if (!Wait(drawn)) return absl::CancelledError("this process is stopping");
    wait = std::min(2 * wait, retries_.most_wait);
  }
}

absl::Status S3Calls::LogError(const S3Call& call, int attempts, absl::Status status) {
  const absl::StatusCode code = status.code();
  const bool ordinary = code == absl::StatusCode::kNotFound || code == absl::StatusCode::kAlreadyExists ||
                        code == absl::StatusCode::kOutOfRange || code == absl::StatusCode::kCancelled;
  if (ordinary) return status;
  const auto message = status.GetPayload(kS3MessagePayload);
  if (const auto not_logged = logged_.Admit()) {
    Log(Severity::kWarning, "s3_request_failed",
        {{"operation", call.operation},
         {"key", call.key},
         {"attempts", attempts},
         {"why", std::string(status.message())},
         {"server_says", message ? std::string(*message) : ""},
         {"not_logged", *not_logged}});
  }
  return status;
}

absl::StatusOr<AwsKeys> S3Calls::Keys() {
  const absl::Time began = clocks_.steady.Now();
  absl::StatusOr<AwsKeys> keys = credentials_.Get();
  if (!keys.ok()) {
    observer_({.operation = "GetKeys", .status = 0, .code = "no_reply", .took = clocks_.steady.Now() - began});
  }
  return keys;
}

S3Calls::Attempt S3Calls::Try(const S3Call& call) {
  Attempt attempt;
  const absl::StatusOr<AwsKeys> keys = Keys();
  if (!keys.ok()) {
    attempt.again = absl::IsUnavailable(keys.status());
    attempt.status = keys.status();
    return attempt;
  }
  const AwsRequest request{.method = call.method,
                           .host = location_.host,
                           .path = location_.Path(call.key),
                           .query = call.query,
                           .headers = call.headers};
  const absl::Time began = clocks_.steady.Now();
  const SigningScope scope{.region = location_.region, .now = clocks_.date.Now() + absl::Seconds(skew_seconds_.load())};
  absl::StatusOr<HttpReply> reply = http_.Send({.method = call.method,
                                                .url = UrlOf(request.path, EncodeQuery(request.query)),
                                                .headers = SignedHeaders(request, call.body_sha256, *keys, scope),
                                                .body = call.body,
                                                .most_reply_bytes = call.most_reply_bytes});
  std::string code = "no_reply";
  if (reply.ok()) {
    attempt.reply = *std::move(reply);
    Judge(call, *keys, attempt);
    code = attempt.status.ok() ? "OK" : attempt.error.code;
  } else {
    attempt.again = absl::IsUnavailable(reply.status());
    attempt.status =
        absl::Status(reply.status().code(), absl::StrCat(NameOf(call), ": ", std::string(reply.status().message())));
  }
  observer_({.operation = call.operation,
             .status = attempt.reply.status,
             .code = std::move(code),
             .took = clocks_.steady.Now() - began});
  return attempt;
}

// Sets what follows from the reply.
void S3Calls::Judge(const S3Call& call, const AwsKeys& keys, Attempt& attempt) {
  HttpReply& reply = attempt.reply;
  const bool ok = reply.status >= 200 && reply.status < 300;
  if (ok && (call.answer == nullptr || HasRoot(reply.body, call.answer))) return;
  attempt.error = ParseS3Error(reply.body);
  std::string& code = attempt.error.code;
  if (ok && code.empty()) code = "InternalError";               // neither what was asked for nor an error
  if (code.empty()) code = absl::StrCat("HTTP", reply.status);  // HEAD has no body
  if (code == "RequestTimeTooSkewed") {
    absl::Time theirs;
    if (absl::ParseTime("%a, %d %b %Y %H:%M:%S GMT", reply.Header("date"), &theirs, nullptr)) {
      skew_seconds_ = absl::ToInt64Seconds(theirs - clocks_.date.Now());
    }
  }
  if (IsAboutKeys(code)) credentials_.Refuse(keys);
  attempt.again = Passes(ok ? 0 : reply.status, code) || IsAboutKeys(code);
  attempt.status = absl::Status(CodeOf(ok ? 0 : reply.status, code),
                                absl::StrCat(NameOf(call), ": ", code, " (HTTP ", reply.status, ")"));
  attempt.status.SetPayload(kS3MessagePayload, absl::Cord(attempt.error.message));
}

absl::StatusOr<S3Calls::Link> S3Calls::Presign(const S3Call& call, absl::Duration lifetime) {
  KINORA_ASSIGN_OR_RETURN(const AwsKeys keys, Keys());
  const absl::Time now = clocks_.date.Now() + absl::Seconds(skew_seconds_.load());
  const AwsRequest request{
      .method = call.method, .host = location_.host, .path = location_.Path(call.key), .query = call.query};
  const std::string query = PresignedQuery(request, keys, {.region = location_.region, .now = now}, lifetime);
  return Link{.url = UrlOf(request.path, query), .expiry = std::min(clocks_.date.Now() + lifetime, keys.expiry)};
}

}  // namespace kinora
