// Makes single requests to a bucket: signs them, repeats them after passing failures, and turns replies into statuses.
// Thread-safe; every call blocks on the network.
//
// Errors, whose messages have the operation, the key and S3's code. What the server says beside, which may name the
// bucket or a user, is in the payload kS3MessagePayload and in the log.
//   NotFound            the key (NoSuchKey) or the multipart upload (NoSuchUpload)
//   AlreadyExists       If-None-Match: the key exists
//   OutOfRange          Range is beyond the end
//   PermissionDenied    the keys are refused, or may not do this
//   ResourceExhausted   a quota of the server
//   Unimplemented       the server does not know the operation or one of its headers
//   FailedPrecondition  the bucket does not exist, or is elsewhere
//   Unavailable         no reply, or the server's own failure, after all repetitions
//   Cancelled           Stop was called
#ifndef KINORA_SERVER_S3_S3_CALLS_H_
#define KINORA_SERVER_S3_S3_CALLS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"
#include "server/common/log_limit.h"
#include "server/s3/aws_credentials.h"
#include "server/s3/http_client.h"
#include "server/s3/s3_answers.h"
#include "server/s3/s3_location.h"

namespace kinora {

inline constexpr char kS3MessagePayload[] = "kinora.s3.message";

struct S3Call {
  const char* operation;  // "GetObject"
  std::string method;
  std::string key;  // in the store; "": of the bucket
  NamedValues query, headers;
  HttpBody body;
  std::string body_sha256 = kEmptySha256;
  int64_t most_reply_bytes = 4 << 20;
  // If set, repeated until this time of the steady clock, because what it stores has taken long to make.
  absl::Time patient_until = absl::InfinitePast();
  const char* answer = nullptr;  // the root element without which a reply with status 200 is no success
};

struct S3Request {  // one that was sent, or had to be: "GetKeys" without a reply
  const char* operation;
  int status = 0;    // of HTTP; 0: no reply
  std::string code;  // "OK", S3's error code, or "no_reply"
  absl::Duration took;
};
using S3Observer = std::function<void(const S3Request& request)>;  // any thread

struct S3Retries {
  int attempts = 5;
  absl::Duration first_wait = absl::Milliseconds(100);  // doubled each time, and drawn from half of it to all of it
  absl::Duration most_wait = absl::Seconds(5);
  absl::Duration give_up = absl::Seconds(40);   // no attempt begins later
  absl::Duration patience = absl::Minutes(10);  // instead of both, for all calls that store one file
};

class S3Calls {
 public:
  // http, credentials and the clocks: not owned.
  S3Calls(S3Location location, HttpClient& http, AwsCredentials& credentials, Clocks clocks, S3Observer observer,
          S3Retries retries = {});

  const S3Location& location() const { return location_; }

  absl::StatusOr<HttpReply> Make(const S3Call& call);
  absl::Time PatienceFromNow() const { return clocks_.steady.Now() + retries_.patience; }  // S3Call.patient_until
  // A URL for making the call, which has no headers and no body, without keys. Does not ask the bucket.
  struct Link {
    std::string url;
    absl::Time expiry;  // earlier than asked if the keys expire earlier
  };
  absl::StatusOr<Link> Presign(const S3Call& call, absl::Duration lifetime);
  void Stop() ABSL_LOCKS_EXCLUDED(mu_);  // ends calls under way; any thread

 private:
  struct Attempt {
    absl::Status status;
    HttpReply reply;
    S3Error error;
    bool again = false;
  };
  Attempt Try(const S3Call& call);
  void Judge(const S3Call& call, const AwsKeys& keys, Attempt& attempt);
  absl::StatusOr<AwsKeys> Keys();
  absl::Status LogError(const S3Call& call, int attempts, absl::Status status);  // unless it is an ordinary answer
  bool Wait(absl::Duration duration) ABSL_LOCKS_EXCLUDED(mu_);                   // false: stopped
  std::string UrlOf(const std::string& path, const std::string& query) const;

  const S3Location location_;
  HttpClient& http_;
  AwsCredentials& credentials_;
  const Clocks clocks_;
  const S3Observer observer_;
  const S3Retries retries_;
  LogLimit logged_;
  std::atomic<int64_t> skew_seconds_{0};  // the server's date minus ours, once it has refused a request for that
  absl::Mutex mu_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace kinora

#endif  // KINORA_SERVER_S3_S3_CALLS_H_
