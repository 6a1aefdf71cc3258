#include "server/s3/s3_artifact_store.h"

#include <fcntl.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/base/file_descriptor.h"
#include "engine/base/status_macros.h"
#include "server/common/file_digest.h"
#include "server/common/file_error.h"
#include "server/common/scratch_file.h"
#include "server/common/secret.h"
#include "server/common/sha256.h"
#include "server/common/status_details.h"

namespace kinora {
namespace {

constexpr char kCheckKey[] = ".kinora-check-";  // no artifact's key begins with a dot
constexpr char kCheckText[] = "kinora";
constexpr int64_t kLeastReply = 64 << 10;  // room for an error's body

// Errors of the spool, for clients.
absl::Status OfSpool(const absl::Status& status, const std::string& spool) {
  if (status.ok()) return status;
  const absl::Status named(status.code(),
                           absl::StrReplaceAll(std::string(status.message()), {{spool, "state_directory"}}));
  return absl::IsResourceExhausted(named) ? WithErrorInfo(named, "DISK_FULL", {{"retryable", "true"}}) : named;
}

// Converts an error of S3Calls for the users of the store. Cancelled stays, so that a run which this process interrupts
// is queued again. What is wrong with the bucket or its keys is for the operator, and may be mended: Unavailable.
absl::Status ForUsers(std::string_view key, const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kAlreadyExists:
      return status;
    case absl::StatusCode::kNotFound:
      return OfFile(std::string(key), absl::NotFoundError(absl::StrCat(std::string(key), ": is not in the bucket")));
    case absl::StatusCode::kResourceExhausted:
      return WithErrorInfo(absl::ResourceExhaustedError(absl::StrCat(std::string(key), ": the bucket is full")),
                           "DISK_FULL", {{"retryable", "true"}});
    default:
      return absl::UnavailableError(
          absl::StrCat(std::string(key), ": the bucket of artifacts failed: ", std::string(status.message())));
  }
}

class SpooledObject : public StagedArtifact {
 public:
  SpooledObject(S3Uploads& uploads, std::string key, const std::string& spool, ScratchFile file)
      : uploads_(uploads), key_(std::move(key)), spool_(spool), file_(std::move(file)) {}

  absl::Status Append(std::string_view data) override {
    KINORA_RETURN_IF_ERROR(OfSpool(file_.Append(data), spool_));
    sha256_.Update(data);
    bytes_ += static_cast<int64_t>(data.size());
    return absl::OkStatus();
  }

  absl::StatusOr<StoredFile> Commit() override {
    const FileDescriptor file = file_.TakeReader();
    StoredFile stored{.bytes = bytes_, .sha256 = sha256_.Hex()};
    const absl::Status put =
        uploads_.Put({.key = key_, .file = file.get(), .bytes = stored.bytes, .sha256 = stored.sha256});
    if (!put.ok()) return ForUsers(key_, put);
    return stored;
  }

 private:
  S3Uploads& uploads_;
  const std::string key_;
  const std::string& spool_;
  ScratchFile file_;
  Sha256 sha256_;
  int64_t bytes_ = 0;
};

}  // namespace

absl::Status S3ArtifactStore::Check() {
  const std::string key = absl::StrCat(kCheckKey, DrawIncarnation());  // others may check at the same time
  S3Call put{.operation = "PutObject", .method = "PUT", .key = key};
  put.body.bytes = kCheckText;
  put.body_sha256 = Sha256Hex(kCheckText);
  const S3Call get{.operation = "GetObject", .method = "GET", .key = key};
  const S3Call remove{.operation = "DeleteObject", .method = "DELETE", .key = key};
  S3Call list{.operation = "ListObjectsV2", .method = "GET"};
  list.query = {{"list-type", "2"}, {"max-keys", "1"}, {"prefix", calls_.location().InBucket("")}};
  for (const S3Call& call : {put, get, remove, list}) {
    const absl::Status status = calls_.Make(call).status();
    if (status.ok()) continue;
    const auto says = status.GetPayload(kS3MessagePayload);
    return absl::Status(status.code(),
                        absl::StrCat("artifacts: bucket ", calls_.location().bucket, " at ", calls_.location().host,
                                     ": ", std::string(status.message()), says && !says->empty() ? ": " : "",
                                     says ? std::string(*says) : ""));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<StagedArtifact>> S3ArtifactStore::Begin(std::string_view key) {
  KINORA_RETURN_IF_ERROR(CheckArtifactKey(key));
  absl::StatusOr<ScratchFile> file = ScratchFile::In(spool_);
  if (!file.ok()) return OfSpool(file.status(), spool_);
  return std::make_unique<SpooledObject>(uploads_, std::string(key), spool_, *std::move(file));
}

absl::StatusOr<StoredFile> S3ArtifactStore::Upload(std::string_view key, const std::string& path,
                                                   const std::string& sha256) {
  KINORA_RETURN_IF_ERROR(CheckArtifactKey(key));
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.ok()) return FileError(path, "open");
  KINORA_ASSIGN_OR_RETURN(const StoredFile stored, DigestFile(path, file.get()));
  if (stored.sha256 != sha256) return stored;
  const absl::Status put =
      uploads_.Put({.key = std::string(key), .file = file.get(), .bytes = stored.bytes, .sha256 = stored.sha256});
  if (!put.ok()) return ForUsers(key, put);
  return stored;
}

absl::StatusOr<int64_t> S3ArtifactStore::Size(std::string_view key) {
  KINORA_RETURN_IF_ERROR(CheckArtifactKey(key));
  const absl::StatusOr<S3ObjectInfo> info = AskForObject(calls_, std::string(key));
  if (!info.ok()) return ForUsers(key, info.status());
  return info->bytes;
}

absl::StatusOr<ArtifactPiece> S3ArtifactStore::Read(std::string_view key, int64_t offset, int64_t limit) {
  KINORA_RETURN_IF_ERROR(CheckArtifactKey(key));
  S3Call call{.operation = "GetObject", .method = "GET", .key = std::string(key)};
  call.headers.emplace_back("range", absl::StrCat("bytes=", offset, "-", offset + limit - 1));
  call.most_reply_bytes = std::max(limit, kLeastReply);
  absl::StatusOr<HttpReply> reply = calls_.Make(call);
  if (absl::IsOutOfRange(reply.status())) {  // at the end of the object or behind it
    KINORA_ASSIGN_OR_RETURN(const int64_t size, Size(key));
    return ArtifactPiece{.size = size};
  }
  if (!reply.ok()) return ForUsers(key, reply.status());
  const int64_t size = SizeInRange(reply->Header("content-range"));
  if (reply->status != 206 || std::ssize(reply->body) != std::clamp<int64_t>(size - offset, 0, limit)) {
    return absl::UnavailableError(absl::StrCat("GetObject ", std::string(key), ": the reply has another range"));
  }
  return ArtifactPiece{.data = std::move(reply->body), .size = size};
}

absl::StatusOr<ArtifactLink> S3ArtifactStore::Link(std::string_view key, const LinkRequest& request) {
  KINORA_RETURN_IF_ERROR(CheckArtifactKey(key));
  S3Call call{.operation = "GetObject", .method = "GET", .key = std::string(key)};
  if (!request.media_type.empty()) call.query.emplace_back("response-content-type", request.media_type);
  if (!request.file_name.empty()) {
    call.query.emplace_back("response-content-disposition",
                            absl::StrCat("attachment; filename=\"", request.file_name, "\""));
  }
  absl::StatusOr<S3Calls::Link> link = calls_.Presign(call, request.lifetime);
  if (!link.ok()) return ForUsers(key, link.status());
  return ArtifactLink{.url = std::move(link->url), .expiry = link->expiry};
}

absl::Status S3ArtifactStore::List(const std::string& beginning, const std::string& delimiter,
                                   const std::function<void(const S3Listing& page)>& page) {
  std::string next;
  do {
    S3Call call{.operation = "ListObjectsV2", .method = "GET"};
    call.query = {{"list-type", "2"}, {"prefix", beginning}};
    if (!delimiter.empty()) call.query.emplace_back("delimiter", delimiter);
    if (!next.empty()) call.query.emplace_back("continuation-token", next);
    const absl::StatusOr<HttpReply> reply = calls_.Make(call);
    if (!reply.ok()) return ForUsers("artifacts", reply.status());
    KINORA_ASSIGN_OR_RETURN(const S3Listing listing, ParseListing(reply->body));
    page(listing);
    next = listing.next;
  } while (!next.empty());
  return absl::OkStatus();
}

std::string S3ArtifactStore::KeyOf(const std::string& in_bucket) const {
  const size_t prefix = calls_.location().InBucket("").size();
  return in_bucket.substr(std::min(prefix, in_bucket.size()));
}

absl::StatusOr<std::vector<S3ArtifactStore::DatedKey>> S3ArtifactStore::DatedKeys(std::string_view prefix) {
  KINORA_RETURN_IF_ERROR(CheckArtifactKey(prefix));
  std::vector<DatedKey> keys;
  const std::string folder = calls_.location().InBucket(absl::StrCat(std::string(prefix), "/"));
  KINORA_RETURN_IF_ERROR(List(folder, "", [&](const S3Listing& page) {
    for (const S3Listing::Object& object : page.objects) {
      std::string key = KeyOf(object.key);
      if (CheckArtifactKey(key).ok()) keys.push_back({.key = std::move(key), .stored = object.modified});
    }
  }));
  return keys;
}

absl::StatusOr<std::vector<std::string>> S3ArtifactStore::Keys(std::string_view prefix) {
  KINORA_ASSIGN_OR_RETURN(std::vector<DatedKey> dated, DatedKeys(prefix));
  std::vector<std::string> keys;
  keys.reserve(dated.size());
  for (DatedKey& key : dated) keys.push_back(std::move(key.key));
  return keys;
}

absl::Status S3ArtifactStore::Delete(std::string_view prefix) {
  KINORA_RETURN_IF_ERROR(CheckArtifactKey(prefix));
  const std::string itself(prefix), folder = absl::StrCat(itself, "/");
  std::vector<std::string> keys;
  KINORA_RETURN_IF_ERROR(List(calls_.location().InBucket(itself), "", [&](const S3Listing& page) {
    for (const S3Listing::Object& object : page.objects) {
      std::string key = KeyOf(object.key);
      if (key == itself || key.starts_with(folder)) keys.push_back(std::move(key));
    }
  }));
  for (const std::string& key : keys) {
    const absl::Status deleted = calls_.Make({.operation = "DeleteObject", .method = "DELETE", .key = key}).status();
    if (!deleted.ok() && !absl::IsNotFound(deleted)) return ForUsers(key, deleted);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> S3ArtifactStore::FirstParts() {
  std::vector<std::string> parts;
  KINORA_RETURN_IF_ERROR(List(calls_.location().InBucket(""), "/", [&](const S3Listing& page) {
    for (const std::string& prefix : page.prefixes) {
      std::string part = KeyOf(prefix);
      part.resize(part.empty() ? 0 : part.size() - 1);
      if (CheckArtifactKey(part).ok()) parts.push_back(std::move(part));
    }
  }));
  return parts;
}

absl::Status S3ArtifactStore::CheckRoom(int64_t bytes) {
  struct statvfs info;
  if (statvfs(spool_.c_str(), &info) != 0) return OfSpool(FileError(spool_, "ask for free space"), spool_);
  const auto free_bytes = static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
  if (free_bytes >= bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      free_bytes, " bytes are free for artifacts on their way to the bucket, but ", bytes, " are required"));
}

}  // namespace kinora
