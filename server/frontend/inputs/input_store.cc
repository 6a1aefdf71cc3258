#include "server/frontend/inputs/input_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "engine/base/file_descriptor.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/common/file_error.h"
#include "server/common/media_type.h"
#include "server/common/status_details.h"
#include "server/common/timestamps.h"

namespace kinora {
namespace {

namespace fs = std::filesystem;
using Header = v1::UploadInputRequest::Header;

constexpr size_t kMostInputs = 65536;
constexpr absl::Duration kPartTtl = absl::Hours(1);  // a part takes room that it may never fill

std::string KeyOf(const std::string& sha256) { return absl::StrCat(kInputsFolder, "/", sha256); }

bool IsSha256(const std::string& text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
         });
}

constexpr char kNoSha256[] = "must be the SHA-256 of the whole file, 64 digits of 0-9 and a-f";

FieldViolations CheckHeader(const Header& header, int64_t max_bytes) {
  FieldViolations out;
  if (!IsSha256(header.sha256())) out.push_back({"header.sha256", kNoSha256});
  if (header.bytes() < 1) out.push_back({"header.bytes", "must be the length of the whole file, 1 or more"});
  if (header.bytes() > max_bytes) {
    out.push_back({"header.bytes", absl::StrCat(header.bytes(), " is more than max_input_bytes, ", max_bytes)});
  }
  if (header.offset() < 0 || header.offset() > std::max<int64_t>(0, header.bytes())) {
    out.push_back({"header.offset", "must be within 0..bytes; nearest: 0"});
  }
  if (!header.media_type().empty() && !IsMediaType(header.media_type())) {
    out.push_back({"header.media_type", absl::StrCat("must be empty or one of ", MediaTypeNames())});
  }
  return out;
}

absl::Status MakePart(const std::string& path, int64_t bytes) {
  const FileDescriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.ok()) return FileError(path, "create");
  return ftruncate(file.get(), bytes) == 0 ? absl::OkStatus() : FileError(path, "cut");
}

// Removes the files of `folder` that `kept` does not know.
int64_t RemoveUnknown(const std::string& folder, const std::function<bool(const std::string& name)>& kept) {
  int64_t removed = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (kept(entry.path().filename().string())) continue;
    std::error_code failed;
    removed += fs::remove(entry.path(), failed) ? 1 : 0;
  }
  return removed;
}

}  // namespace

InputStore::InputStore(JobStore& records, ArtifactStore& artifacts, std::string folder, Clock& clock,
                       FrontendMetrics& metrics, InputRules rules)
    : records_(records),
      artifacts_(artifacts),
      folder_(std::move(folder)),
      metrics_(metrics),
      rules_(std::move(rules)),
      loop_(clock) {}

absl::StatusOr<std::unique_ptr<InputStore>> InputStore::Open(JobStore& records, ArtifactStore& artifacts,
                                                             const std::string& artifact_directory,
                                                             const std::string& folder, Clock& clock,
                                                             FrontendMetrics& metrics, InputRules rules) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return FileError(folder, "create directory");
  absl::StatusOr<std::vector<InputRecord>> known;
  absl::Notification read;
  records.Inputs([&](absl::StatusOr<std::vector<InputRecord>> found) {
    known = std::move(found);
    read.Notify();
  });
  read.WaitForNotification();
  KINORA_RETURN_IF_ERROR(known.status());
  std::unique_ptr<InputStore> store(new InputStore(records, artifacts, folder, clock, metrics, std::move(rules)));
  for (InputRecord& record : *known) {
    store->taken_ += record.bytes;
    std::string key = record.sha256;
    store->entries_[std::move(key)].record = std::move(record);
  }
  const auto is = [&](const std::string& name, bool whole) {
    const Entry* entry = store->FindEntry(name);
    return entry != nullptr && entry->record.media_type.empty() != whole;
  };
  const int64_t removed = RemoveUnknown(folder, [&](const std::string& name) { return is(name, false); }) +
                          RemoveUnknown(absl::StrCat(artifact_directory, "/", kInputsFolder),
                                        [&](const std::string& name) { return is(name, true); });
  if (removed > 0) Log(Severity::kInfo, "inputs_without_record_removed", {{"files", absl::StrCat(removed)}});
  store->Count();
  store->Post([store = store.get()] { store->Sweep(); });
  return store;
}

void InputStore::Begin(const Header& header, Done<Begun> done) {
  if (const FieldViolations violations = CheckHeader(header, rules_.max_bytes); !violations.empty()) {
    return done(InvalidFields(violations));
  }
  Post([this, header, done = std::move(done)]() mutable { Start(header, std::move(done)); });
}

void InputStore::Start(const Header& header, Done<Begun> done) {
  Entry* entry = FindEntry(header.sha256());
  if (entry != nullptr && entry->busy) {
    return done(WithRetryInfo(absl::AbortedError("header.sha256: another call uploads this content; try again when it "
                                                 "has ended"),
                              absl::Seconds(1)));
  }
  absl::StatusOr<bool> whole = false;
  if (entry != nullptr) whole = IsWhole(entry->record);
  if (!whole.ok()) return done(whole.status());
  if (*whole) {
    InputRecord record = entry->record;
    if (record.bytes != header.bytes()) {
      return done(InvalidField("header.bytes", absl::StrCat("the file with this sha256 has ", record.bytes,
                                                            " bytes; nearest: ", record.bytes)));
    }
    record.expiry = loop_.Now() + rules_.ttl;
    v1::Input input = ToInput(record);
    return Store(record, [input = std::move(input), done = std::move(done)](const absl::Status& status) mutable {
      status.ok() ? done(Begun{.input = std::move(input)}) : done(status);
    });
  }
  absl::Status status = CheckPart(header, entry);
  if (status.ok()) status = CheckRoom(header, entry == nullptr ? 0 : entry->record.bytes);
  if (!status.ok()) return done(status);
  InputRecord record{.sha256 = header.sha256(), .bytes = header.bytes()};
  record.expiry = PartExpiry();
  entries_[header.sha256()].busy = true;
  std::unique_ptr<Upload> upload(new Upload(*this, header));  // releases it, whatever comes
  Store(record, [this, upload = std::move(upload), done = std::move(done)](absl::Status stored) mutable {
    if (stored.ok()) stored = MakePart(PartPath(upload->sha256_), upload->received_);
    if (!stored.ok()) return done(stored);
    Begun begun{.input = ToInput(FindEntry(upload->sha256_)->record)};
    begun.upload = std::move(upload);
    done(std::move(begun));
  });
}

absl::Status InputStore::CheckPart(const Header& header, const Entry* entry) {
  if (header.offset() == 0) return absl::OkStatus();
  if (entry != nullptr && entry->record.bytes != header.bytes()) {
    return InvalidField("header.bytes",
                        absl::StrCat("the upload to go on with has ", entry->record.bytes,
                                     " bytes; nearest: ", entry->record.bytes, ", or begin at offset 0"));
  }
  const int64_t received = entry == nullptr ? 0 : Received(header.sha256());
  if (header.offset() <= received) return absl::OkStatus();
  return InvalidField("header.offset", absl::StrCat(received, " bytes of it are stored; nearest: ", received));
}

absl::Status InputStore::CheckRoom(const Header& header, int64_t taken_by_it) {
  const int64_t left = rules_.quota - (taken_ - taken_by_it);
  absl::Status full;
  if (header.bytes() > left) {
    full = absl::ResourceExhaustedError(absl::StrCat("header.bytes: ", header.bytes(),
                                                     " bytes, and of input_quota_bytes (", rules_.quota, ") ",
                                                     std::max<int64_t>(0, left), " are left"));
  } else if (entries_.size() >= kMostInputs && FindEntry(header.sha256()) == nullptr) {
    full = absl::ResourceExhaustedError(absl::StrCat(kMostInputs, " inputs are stored, which is the most"));
  }
  if (full.ok()) return rules_.check_disk(header.bytes() - header.offset());
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [sha256, entry] : entries_) next = std::min(next, entry.record.expiry);
  const absl::Duration wait = std::max(next - loop_.Now(), absl::Seconds(1));
  const absl::Status told(full.code(), absl::StrCat(full.message(), "; the next input expires in ",
                                                    absl::FormatDuration(absl::Trunc(wait, absl::Seconds(1)))));
  return WithErrorInfo(next == absl::InfiniteFuture() ? full : WithRetryInfo(told, wait), "INPUT_QUOTA");
}

// The entry has the record at once, so that the quota holds for who comes next; without a record in the job store it is
// as it was before.
void InputStore::Store(const InputRecord& record, Finished done) {
  Entry& entry = entries_[record.sha256];
  InputRecord before = std::exchange(entry.record, record);
  taken_ += record.bytes - before.bytes;
  records_.PutInput(record, [this, before = std::move(before), sha256 = record.sha256,
                             done = std::move(done)](absl::Status status) mutable {
    Post([this, before = std::move(before), sha256 = std::move(sha256), status = std::move(status),
          done = std::move(done)]() mutable {
      if (!status.ok()) {
        Entry& stored = entries_[sha256];
        taken_ += before.bytes - stored.record.bytes;
        stored.record = before;
        if (before.sha256.empty()) stored.record.sha256 = sha256;  // expired: Release removes it
      }
      Count();
      done(std::move(status));
    });
  });
}

void InputStore::Upload::Append(std::string data, Finished done) {
  store_.Post([this, data = std::move(data), done = std::move(done)]() mutable { done(store_.Write(*this, data)); });
}

absl::Status InputStore::Write(Upload& upload, const std::string& data) {
  const int64_t left = upload.bytes_ - upload.received_;
  if (std::ssize(data) > left) {
    return InvalidField("data", absl::StrCat("more than the ", upload.bytes_, " bytes of header.bytes"));
  }
  const std::string path = PartPath(upload.sha256_);
  const FileDescriptor file(open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file.ok()) return FileError(path, "open");
  for (size_t done = 0; done < data.size();) {
    const ssize_t n = pwrite(file.get(), data.data() + done, data.size() - done, upload.received_);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError(path, "write");
    done += n;
    upload.received_ += n;
  }
  FindEntry(upload.sha256_)->record.expiry = PartExpiry();
  metrics_.uploaded_bytes_total.Increment(static_cast<double>(data.size()));
  const bool told = upload.received_ == upload.bytes_ || upload.received_ >= static_cast<int64_t>(kMediaHead);
  return told && upload.media_type_.empty() ? LookAtHead(upload) : absl::OkStatus();
}

absl::Status InputStore::LookAtHead(Upload& upload) {
  const std::string path = PartPath(upload.sha256_);
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  std::string head(kMediaHead, '\0');
  const ssize_t n = file.ok() ? pread(file.get(), head.data(), head.size(), 0) : -1;
  if (n < 0) return FileError(path, "read");
  head.resize(n);
  const std::string_view type = MediaTypeOf(head);
  absl::Status wrong;
  if (type.empty()) {
    wrong = InvalidField("data", absl::StrCat("is of no type that is taken: ", MediaTypeNames()));
  } else if (!upload.asked_type_.empty() && upload.asked_type_ != type) {
    wrong = InvalidField("header.media_type", absl::StrCat("the data is ", std::string(type),
                                                           "; nearest: ", std::string(type), ", or empty"));
  }
  if (!wrong.ok()) {
    Discard(upload.sha256_);
    return wrong;
  }
  upload.media_type_ = std::string(type);
  return absl::OkStatus();
}

void InputStore::Upload::Complete(Done<v1::Input> done) {
  store_.Post([this, done = std::move(done)]() mutable {
    absl::StatusOr<InputRecord> placed = store_.Place(*this);
    if (!placed.ok()) return done(placed.status());
    v1::Input input = store_.ToInput(*placed);
    store_.Store(*placed, [input = std::move(input), done = std::move(done)](const absl::Status& status) mutable {
      status.ok() ? done(std::move(input)) : done(status);
    });
  });
}

absl::StatusOr<InputRecord> InputStore::Place(Upload& upload) {
  if (upload.received_ < upload.bytes_) {
    return InvalidField("data", absl::StrCat("ends after ", upload.received_, " of the ", upload.bytes_,
                                             " bytes of header.bytes; go on with header.offset ", upload.received_));
  }
  if (upload.media_type_.empty()) KINORA_RETURN_IF_ERROR(LookAtHead(upload));  // resumed with nothing missing
  KINORA_ASSIGN_OR_RETURN(const StoredFile stored, artifacts_.Put(KeyOf(upload.sha256_), PartPath(upload.sha256_)));
  if (stored.sha256 != upload.sha256_) {
    KINORA_RETURN_IF_ERROR(artifacts_.Delete(KeyOf(upload.sha256_)));
    Discard(upload.sha256_);
    return InvalidField("header.sha256",
                        absl::StrCat("the data has ", stored.sha256, "; upload it again from header.offset 0"));
  }
  return InputRecord{.sha256 = upload.sha256_,
                     .bytes = upload.bytes_,
                     .media_type = upload.media_type_,
                     .expiry = loop_.Now() + rules_.ttl};
}

void InputStore::Find(const std::string& sha256, Done<v1::Input> done) {
  if (!IsSha256(sha256)) return done(InvalidField("sha256", kNoSha256));
  Post([this, sha256, done = std::move(done)]() mutable {
    const Entry* entry = FindEntry(sha256);
    if (entry == nullptr || entry->record.expiry <= loop_.Now()) {
      return done(absl::NotFoundError("sha256: nothing of this content is stored; upload it from offset 0"));
    }
    done(ToInput(entry->record));
  });
}

void InputStore::Discard(const std::string& sha256) {
  unlink(PartPath(sha256).c_str());
  FindEntry(sha256)->record.expiry = absl::InfinitePast();
}

void InputStore::Release(const std::string& sha256) {
  Entry* entry = FindEntry(sha256);
  entry->busy = false;
  if (entry->record.expiry <= loop_.Now()) Remove(sha256);
}

// The record first: files without one are removed at the next start at the latest.
void InputStore::Remove(const std::string& sha256) {
  FindEntry(sha256)->busy = true;
  records_.RemoveInput(sha256, [this, sha256](absl::Status status) {
    Post([this, sha256, status = std::move(status)]() mutable {
      if (status.ok()) status = artifacts_.Delete(KeyOf(sha256));
      Entry* entry = FindEntry(sha256);
      entry->busy = false;
      if (!status.ok()) {
        return Log(Severity::kError, "input_not_removed",
                   {{"input", sha256}, {"why", std::string(status.message())}});  // the next sweep tries again
      }
      unlink(PartPath(sha256).c_str());
      taken_ -= entry->record.bytes;
      entries_.erase(sha256);
      Count();
      Log(Severity::kInfo, "input_removed", {{"input", sha256}});
    });
  });
}

void InputStore::Sweep() {
  const absl::Time now = loop_.Now();
  std::vector<std::string> expired;
  for (const auto& [sha256, entry] : entries_) {
    if (!entry.busy && entry.record.expiry <= now) expired.push_back(sha256);
  }
  for (const std::string& sha256 : expired) Remove(sha256);
  loop_.PostAt(now + rules_.sweep_interval, [this] { Sweep(); });
}

void InputStore::Count() {
  const auto whole = std::count_if(entries_.begin(), entries_.end(),
                                   [](const auto& entry) { return !entry.second.record.media_type.empty(); });
  metrics_.inputs.Set(static_cast<double>(whole));
  metrics_.input_bytes.Set(static_cast<double>(taken_));
}

InputStore::Entry* InputStore::FindEntry(const std::string& sha256) {
  const auto found = entries_.find(sha256);
  return found == entries_.end() ? nullptr : &found->second;
}

// Its record says so, and its file is there, at least with its length. A file that cannot be looked at now is not lost.
absl::StatusOr<bool> InputStore::IsWhole(const InputRecord& record) {
  if (record.media_type.empty()) return false;
  const auto reader = artifacts_.Open(KeyOf(record.sha256));
  if (reader.ok() && (*reader)->size() == record.bytes) return true;
  if (!reader.ok() && !absl::IsNotFound(reader.status())) return reader.status();
  Log(Severity::kError, "input_lost",
      {{"input", record.sha256}, {"why", reader.ok() ? "another length" : std::string(reader.status().message())}});
  return false;
}

absl::Time InputStore::PartExpiry() const { return loop_.Now() + std::min(rules_.ttl, kPartTtl); }

int64_t InputStore::Received(const std::string& sha256) const {
  struct stat info;
  return stat(PartPath(sha256).c_str(), &info) == 0 ? info.st_size : 0;
}

v1::Input InputStore::ToInput(const InputRecord& record) const {
  v1::Input input;
  const bool whole = !record.media_type.empty();
  if (whole) input.set_id(record.sha256);
  input.set_media_type(record.media_type);
  input.set_bytes(record.bytes);
  input.set_sha256(record.sha256);
  *input.mutable_expire_time() = ToProto(record.expiry);
  input.set_received(whole ? record.bytes : Received(record.sha256));
  return input;
}

}  // namespace kinora
