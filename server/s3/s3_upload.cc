#include "server/s3/s3_upload.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/status_macros.h"
#include "engine/base/uninterrupted.h"
#include "server/common/sha256.h"

namespace kinora {
namespace {

constexpr int64_t kMostParts = 10'000;
constexpr int64_t kReadBytes = 1 << 20;

absl::StatusOr<std::string> DigestOf(const S3File& file, int64_t offset, int64_t length) {
  Sha256 sha256;
  std::string buffer(std::min(length, kReadBytes), '\0');
  for (int64_t done = 0; done < length;) {
    const size_t most = std::min<int64_t>(buffer.size(), length - done);
    const ssize_t n = Uninterrupted([&] { return pread(file.file, buffer.data(), most, offset + done); });
    if (n <= 0) return absl::UnavailableError(absl::StrCat(file.key, ": the file to upload cannot be read"));
    sha256.Update(std::string_view(buffer.data(), n));
    done += n;
  }
  return sha256.Hex();
}

S3Call OfBytes(const char* operation, std::string method, const S3File& file, int64_t offset, int64_t length) {
  S3Call call{.operation = operation, .method = std::move(method), .key = file.key};
  call.body = {.file = file.file, .offset = offset, .length = length};
  return call;
}

void AddMetadata(const S3File& file, S3Call& call) {
  call.headers.emplace_back("content-type", "application/octet-stream");
  call.headers.emplace_back("x-amz-meta-sha256", file.sha256);
}

// Runs task(0…count - 1) on a few threads until one fails, and returns the first error.
absl::Status OnThreads(int count, int threads, const std::function<absl::Status(int index)>& task) {
  absl::Mutex mu;
  absl::Status first;
  std::atomic<int> next = 0;
  std::atomic<bool> failed = false;
  const auto work = [&] {
    for (int index = next++; index < count && !failed; index = next++) {
      const absl::Status status = task(index);
      if (status.ok()) continue;
      absl::MutexLock lock(&mu);
      first.Update(status);
      failed = true;
    }
  };
  std::vector<std::thread> others;
  others.reserve(threads);
  for (int i = 1; i < std::min(threads, count); ++i) others.emplace_back(work);
  work();
  for (std::thread& thread : others) thread.join();
  return first;
}

}  // namespace

absl::Status S3Uploads::Put(const S3File& file) {
  const absl::Time until = calls_.PatienceFromNow();
  return file.bytes < rules_.multipart_from ? PutWhole(file, until) : PutParts(file, until);
}

absl::Status S3Uploads::Create(const S3Call& call) {
  if (!conditional_) return calls_.Make(call).status();
  S3Call conditional = call;
  conditional.headers.emplace_back("if-none-match", "*");
  absl::Status status = calls_.Make(conditional).status();
  if (!absl::IsUnimplemented(status)) return status;
  conditional_ = false;
  return calls_.Make(call).status();
}

absl::Status S3Uploads::PutWhole(const S3File& file, absl::Time until) {
  S3Call call = OfBytes("PutObject", "PUT", file, 0, file.bytes);
  call.body_sha256 = file.sha256;
  AddMetadata(file, call);
  call.patient_until = until;
  const absl::Status status = Create(call);
  return absl::IsAlreadyExists(status) ? Confirm(file, until) : status;
}

absl::Status S3Uploads::PutParts(const S3File& file, absl::Time until) {
  S3Call begin{.operation = "CreateMultipartUpload", .method = "POST", .key = file.key, .query = {{"uploads", ""}}};
  begin.patient_until = until;
  AddMetadata(file, begin);
  KINORA_ASSIGN_OR_RETURN(const HttpReply begun, calls_.Make(begin));
  KINORA_ASSIGN_OR_RETURN(const std::string id, ParseUploadId(begun.body));
  absl::StatusOr<std::vector<std::string>> etags = SendParts(file, id, until);
  absl::Status status = etags.ok() ? Complete(file, id, *etags, until) : etags.status();
  if (status.ok()) return status;
  // NotFound: completed, and the answer was lost.
  if (absl::IsNotFound(status) || absl::IsAlreadyExists(status)) status = Confirm(file, until);
  S3Call abort{.operation = "AbortMultipartUpload", .method = "DELETE", .key = file.key, .query = {{"uploadId", id}}};
  calls_.Make(abort).status().IgnoreError();  // the bucket's lifecycle rule removes the parts
  return status;
}

absl::StatusOr<std::vector<std::string>> S3Uploads::SendParts(const S3File& file, const std::string& upload_id,
                                                              absl::Time until) {
  const int64_t part = std::max(rules_.part, (file.bytes + kMostParts - 1) / kMostParts);
  std::vector<std::string> etags((file.bytes + part - 1) / part);
  KINORA_RETURN_IF_ERROR(OnThreads(static_cast<int>(etags.size()), rules_.parallel, [&](int index) -> absl::Status {
    KINORA_ASSIGN_OR_RETURN(etags[index], SendPart(file, upload_id, {.index = index, .bytes = part, .until = until}));
    return absl::OkStatus();
  }));
  return etags;
}

absl::StatusOr<std::string> S3Uploads::SendPart(const S3File& file, const std::string& upload_id, const Part& part) {
  const int64_t offset = part.index * part.bytes;
  S3Call call = OfBytes("UploadPart", "PUT", file, offset, std::min(part.bytes, file.bytes - offset));
  call.query = {{"partNumber", absl::StrCat(part.index + 1)}, {"uploadId", upload_id}};
  call.patient_until = part.until;
  KINORA_ASSIGN_OR_RETURN(call.body_sha256, DigestOf(file, offset, call.body.length));
  KINORA_ASSIGN_OR_RETURN(const HttpReply reply, calls_.Make(call));
  std::string etag = reply.Header("etag");
  if (etag.empty()) return absl::UnavailableError(absl::StrCat("UploadPart ", file.key, ": the reply has no ETag"));
  return etag;
}

absl::Status S3Uploads::Complete(const S3File& file, const std::string& upload_id,
                                 const std::vector<std::string>& etags, absl::Time until) {
  const std::string body = CompletionBody(etags);
  S3Call call{.operation = "CompleteMultipartUpload",
              .method = "POST",
              .key = file.key,
              .query = {{"uploadId", upload_id}},
              .headers = {{"content-type", "application/xml"}},
              .body = {.bytes = body},
              .body_sha256 = Sha256Hex(body),
              .patient_until = until,
              .answer = "CompleteMultipartUploadResult"};
  return Create(call);
}

absl::Status S3Uploads::Confirm(const S3File& file, absl::Time until) {
  absl::StatusOr<S3ObjectInfo> info = AskForObject(calls_, file.key, until);
  if (absl::IsNotFound(info.status())) {
    return absl::UnavailableError(absl::StrCat(file.key, ": its upload is unknown to the server"));
  }
  KINORA_RETURN_IF_ERROR(info.status());
  if (info->bytes == file.bytes && info->sha256.empty()) {  // another program has put it there
    KINORA_ASSIGN_OR_RETURN(info->sha256, DigestOfObject(file, until));
  }
  if (info->bytes == file.bytes && info->sha256 == file.sha256) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(file.key, ": an object with other content has this key"));
}

absl::StatusOr<std::string> S3Uploads::DigestOfObject(const S3File& file, absl::Time until) {
  Sha256 sha256;
  for (int64_t offset = 0; offset < file.bytes;) {
    S3Call call{.operation = "GetObject", .method = "GET", .key = file.key, .patient_until = until};
    call.headers.emplace_back("range", absl::StrCat("bytes=", offset, "-", offset + kReadBytes - 1));
    KINORA_ASSIGN_OR_RETURN(const HttpReply reply, calls_.Make(call));
    if (reply.status != 206 || reply.body.empty()) return absl::UnavailableError(absl::StrCat(file.key, ": no range"));
    sha256.Update(reply.body);
    offset += std::ssize(reply.body);
  }
  return sha256.Hex();
}

int64_t SizeInRange(const std::string& content_range) {
  int64_t size = -1;
  const size_t slash = content_range.find('/');
  if (slash == std::string::npos || !absl::SimpleAtoi(content_range.substr(slash + 1), &size)) return -1;
  return size;
}

// GetObject, because an error of HeadObject has no code.
absl::StatusOr<S3ObjectInfo> AskForObject(S3Calls& calls, const std::string& key, absl::Time until) {
  S3Call call{.operation = "GetObject", .method = "GET", .key = key, .patient_until = until};
  call.headers.emplace_back("range", "bytes=0-0");
  const absl::StatusOr<HttpReply> reply = calls.Make(call);
  if (absl::IsOutOfRange(reply.status())) return S3ObjectInfo{.bytes = 0, .sha256 = kEmptySha256};
  KINORA_RETURN_IF_ERROR(reply.status());
  const S3ObjectInfo info{.bytes = SizeInRange(reply->Header("content-range")),
                          .sha256 = reply->Header("x-amz-meta-sha256")};
  if (reply->status == 206 && info.bytes >= 0) return info;
  return absl::UnavailableError(absl::StrCat("GetObject ", key, ": the reply has no range"));
}

}  // namespace kinora
