#include "server/frontend/inputs/input_store.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/common/timestamps.h"
#include "server/request/media_type.h"

namespace kinora {
namespace {

using Header = v1::UploadInputRequest::Header;

constexpr size_t kMostViolations = 20;  // per answer, because they are sent in a status

constexpr char kNoSha256[] = "must be the SHA-256 of the whole file, as 64 lowercase hexadecimal digits";

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

}  // namespace

InputStore::InputStore(InputRecords& records, JobStore& jobs, ArtifactStore& artifacts, InputParts& parts, Clock& clock,
                       FrontendMetrics& metrics, InputRules rules)
    : records_(records),
      jobs_(jobs),
      artifacts_(artifacts),
      parts_(parts),
      metrics_(metrics),
      rules_(std::move(rules)),
      lost_(absl::Minutes(1), clock),
      loop_(clock),
      disk_(clock, artifacts.lanes()),
      files_(clock, artifacts.lanes()) {}

absl::StatusOr<std::unique_ptr<InputStore>> InputStore::Open(InputRecords& records, JobStore& jobs,
                                                             ArtifactStore& artifacts, InputParts& parts, Clock& clock,
                                                             FrontendMetrics& metrics, InputRules rules) {
  absl::StatusOr<std::vector<InputRecord>> known;
  absl::Notification read;
  records.Inputs([&](absl::StatusOr<std::vector<InputRecord>> found) {
    known = std::move(found);
    read.Notify();
  });
  read.WaitForNotification();
  KINORA_RETURN_IF_ERROR(known.status());
  std::unique_ptr<InputStore> store(new InputStore(records, jobs, artifacts, parts, clock, metrics, std::move(rules)));
  const int64_t removed = parts.Reconcile(*known);
  if (removed > 0) Log(Severity::kInfo, "inputs_without_record_removed", {{"files", absl::StrCat(removed)}});
  for (InputRecord& record : *known) {
    store->taken_ += record.bytes;
    std::string key = record.sha256;
    Entry& entry = store->entries_[std::move(key)];
    entry.stored_expiry = record.expiry;
    entry.record = std::move(record);
  }
  store->Count();
  store->Post([store = store.get()] { store->Sweep(); });
  return store;
}

void InputStore::Begin(const Header& header, Done<Begun> done) {
  if (const FieldViolations violations = CheckHeader(header, rules_.max_bytes); !violations.empty()) {
    return done(InvalidFields(violations));
  }
  Post([this, header, done = std::move(done)]() mutable {
    Look({header.sha256()}, [this, header, done = std::move(done)](const absl::Status&) mutable {
      Start(header, std::move(done));  // which stores a record first
    });
  });
}

// Fails if the file cannot be read now.
absl::StatusOr<bool> InputStore::IsWhole(const Entry& entry) {
  if (entry.record.media_type.empty()) return false;
  return entry.file_is_there;
}

void InputStore::Start(const Header& header, Done<Begun> done) {
  Entry* entry = FindEntry(header.sha256());
  if (entry != nullptr && entry->busy) {
    return done(WithRetryInfo(
        absl::AbortedError("header.sha256: another call is uploading this content; try again when it has finished"),
        absl::Seconds(1)));
  }
  absl::StatusOr<bool> whole = false;
  if (entry != nullptr) whole = IsWhole(*entry);
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
  coming_ += header.bytes() - header.offset();
  std::unique_ptr<Upload> upload(new Upload(*this, header));  // its destructor releases the entry in all cases
  Store(record, [this, upload = std::move(upload), done = std::move(done)](absl::Status stored) mutable {
    if (stored.ok()) stored = parts_.Begin(upload->sha256_, upload->received_);
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
                        absl::StrCat("the upload to resume has ", entry->record.bytes,
                                     " bytes; nearest: ", entry->record.bytes, ", or start over at offset 0"));
  }
  const int64_t received = entry == nullptr ? 0 : parts_.Bytes(header.sha256());
  if (header.offset() <= received) return absl::OkStatus();
  return InvalidField("header.offset", absl::StrCat(received, " bytes of it are stored; nearest: ", received));
}

absl::Status InputStore::CheckRoom(const Header& header, int64_t taken_by_it) {
  const int64_t left = rules_.quota - (taken_ - taken_by_it);
  absl::Status full;
  if (header.bytes() > left) {
    full = absl::ResourceExhaustedError(absl::StrCat("header.bytes: ", header.bytes(),
                                                     " bytes, but of input_quota_bytes (", rules_.quota, ") ",
                                                     std::max<int64_t>(0, left), " are left"));
  } else if (entries_.size() >= kMostInputs && FindEntry(header.sha256()) == nullptr) {
    full = absl::ResourceExhaustedError(absl::StrCat(kMostInputs, " inputs are stored, the maximum"));
  }
  if (full.ok()) return rules_.check_disk(coming_ + header.bytes() - header.offset());
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [sha256, entry] : entries_) next = std::min(next, entry.record.expiry);
  const absl::Duration wait = std::max(next - loop_.Now(), absl::Seconds(1));
  const absl::Status told(full.code(), absl::StrCat(full.message(), "; the next input expires in ",
                                                    absl::FormatDuration(absl::Trunc(wait, absl::Seconds(1)))));
  return WithErrorInfo(next == absl::InfiniteFuture() ? full : WithRetryInfo(told, wait), "INPUT_QUOTA");
}

// Updates the entry at once, so that the quota includes it, but sets media_type (complete) only once the record is
// stored. On failure it restores the previous entry.
void InputStore::Store(const InputRecord& record, Finished done) {
  Entry& entry = entries_[record.sha256];
  InputRecord before = std::exchange(entry.record, record);
  if (before.media_type.empty()) entry.record.media_type.clear();
  entry.stored_expiry = record.expiry;
  taken_ += record.bytes - before.bytes;
  entry.change = ++changes_;
  records_.PutInput(
      record, [this, before = std::move(before), record = record, done = std::move(done)](absl::Status status) mutable {
        Post([this, before = std::move(before), record = std::move(record), status = std::move(status),
              done = std::move(done)]() mutable {
          Entry& stored = entries_[record.sha256];
          stored.change = ++changes_;
          if (status.ok()) {
            stored.record.media_type = record.media_type;
            if (!record.media_type.empty()) stored.file_is_there = true;
          } else {
            taken_ += before.bytes - stored.record.bytes;
            stored.record = before;
            stored.record.sha256 = record.sha256;  // a new entry has expired, so Release removes it
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
  const int64_t before = upload.received_;
  const absl::Status written = parts_.Write(upload.sha256_, data, upload.received_);
  coming_ -= upload.received_ - before;
  KINORA_RETURN_IF_ERROR(written);
  KeepPart(*FindEntry(upload.sha256_));
  metrics_.uploaded_bytes_total.Increment(static_cast<double>(data.size()));
  const bool told = upload.received_ == upload.bytes_ || upload.received_ >= static_cast<int64_t>(kMediaHead);
  return told && upload.media_type_.empty() ? LookAtHead(upload) : absl::OkStatus();
}

// Stores the record only from time to time, so that after a restart the expiry is about right.
void InputStore::KeepPart(Entry& part) {
  part.record.expiry = PartExpiry();
  if (part.record.expiry - part.stored_expiry < kPartTtl / 6) return;
  part.stored_expiry = part.record.expiry;
  records_.PutInput(part.record, [](const absl::Status&) {});
}

absl::Status InputStore::LookAtHead(Upload& upload) {
  KINORA_ASSIGN_OR_RETURN(const std::string head, parts_.Head(upload.sha256_));
  const std::string_view type = MediaTypeOf(head);
  absl::Status wrong;
  if (type.empty()) {
    wrong = InvalidField("data", absl::StrCat("is not of a supported type: ", MediaTypeNames()));
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
    if (const absl::Status status = store_.CheckComplete(*this); !status.ok()) return done(status);
    const InputRecord part{.sha256 = sha256_, .bytes = bytes_, .media_type = media_type_};
    store_.disk_.At(store_.disk_.IndexOf(sha256_)).Post([&store = store_, part, done = std::move(done)]() mutable {
      store.Post([&store, placed = store.Place(part), sha256 = part.sha256, done = std::move(done)]() mutable {
        store.OnPlaced(placed, sha256, std::move(done));
      });
    });
  });
}

absl::Status InputStore::CheckComplete(Upload& upload) {
  if (upload.received_ < upload.bytes_) {
    return InvalidField("data", absl::StrCat("ends after ", upload.received_, " of the ", upload.bytes_,
                                             " bytes of header.bytes; resume with header.offset ", upload.received_));
  }
  return upload.media_type_.empty() ? LookAtHead(upload) : absl::OkStatus();  // a resumed upload with nothing missing
}

absl::StatusOr<InputRecord> InputStore::Place(const InputRecord& part) {
  KINORA_ASSIGN_OR_RETURN(const StoredFile stored, parts_.Commit(part.sha256, InputKey(part.sha256)));
  if (stored.sha256 == part.sha256) return part;
  return InvalidField("header.sha256",
                      absl::StrCat("the data has ", stored.sha256, "; upload it again from header.offset 0"));
}

void InputStore::OnPlaced(const absl::StatusOr<InputRecord>& placed, const std::string& sha256, Done<v1::Input> done) {
  if (!placed.ok()) {
    if (absl::IsInvalidArgument(placed.status())) Discard(sha256);
    return done(placed.status());
  }
  InputRecord record = *placed;
  record.expiry = loop_.Now() + rules_.ttl;
  v1::Input input = ToInput(record);
  Store(record, [this, input = std::move(input), done = std::move(done)](const absl::Status& status) mutable {
    if (!status.ok()) return done(status);
    parts_.Remove(input.sha256());  // which Commit may have left
    done(std::move(input));
  });
}

void InputStore::Find(const std::string& sha256, Done<v1::Input> done) {
  if (!IsSha256(sha256)) return done(InvalidField("sha256", kNoSha256));
  Post([this, sha256, done = std::move(done)]() mutable {
    Look({sha256}, [this, sha256, done = std::move(done)](const absl::Status& looked) mutable {
      FinishFind(sha256, looked, std::move(done));
    });
  });
}

void InputStore::FinishFind(const std::string& sha256, const absl::Status& looked, Done<v1::Input> done) {
  const Entry* entry = FindEntry(sha256);
  if (entry == nullptr || entry->record.expiry <= loop_.Now()) {
    if (!looked.ok()) return done(looked);
    return done(absl::NotFoundError("sha256: none of this content is stored; upload it from offset 0"));
  }
  if (!entry->record.media_type.empty()) {
    const absl::StatusOr<bool> whole = IsWhole(*entry);
    if (!whole.ok()) return done(whole.status());
    if (!*whole) return done(absl::NotFoundError("sha256: its file is lost; upload it again from offset 0"));
  }
  done(ToInput(entry->record));
}

void InputStore::Require(std::vector<InputRef> refs, Finished done) {
  std::vector<std::string> inputs;
  inputs.reserve(refs.size());
  for (const InputRef& ref : refs) inputs.push_back(ref.id);
  Post([this, inputs = std::move(inputs), refs = std::move(refs), done = std::move(done)]() mutable {
    Look(inputs, [this, refs = std::move(refs), done = std::move(done)](const absl::Status& looked) mutable {
      FinishRequire(refs, looked, std::move(done));
    });
  });
}

void InputStore::FinishRequire(const std::vector<InputRef>& refs, const absl::Status& looked, Finished done) {
  FieldViolations violations;
  for (const InputRef& ref : refs) {
    if (const absl::Status status = CheckRef(ref, violations); !status.ok()) return done(status);
  }
  if (!violations.empty() && !looked.ok()) return done(looked);  // another frontend may have stored them
  if (violations.size() > kMostViolations) violations.resize(kMostViolations);
  done(violations.empty() ? absl::OkStatus() : InvalidFields(violations));
}

absl::Status InputStore::CheckRef(const InputRef& ref, FieldViolations& violations) {
  const auto refuse = [&](std::string why) {
    violations.push_back({absl::StrCat("generation.", ref.field), std::move(why)});
    return absl::OkStatus();
  };
  Entry* entry = FindEntry(ref.id);
  if (entry == nullptr || entry->record.expiry <= loop_.Now()) {
    return refuse("no input with this id is stored; upload it first (UploadInput)");
  }
  const InputRecord& record = entry->record;
  if (record.media_type.empty()) {
    const int64_t received = parts_.Bytes(ref.id);
    return refuse(absl::StrCat("its upload is incomplete: ", received, " of ", record.bytes,
                               " bytes have arrived; resume with header.offset ", received));
  }
  KINORA_ASSIGN_OR_RETURN(const bool whole, IsWhole(*entry));
  if (!whole) return refuse("its file is lost; upload it again (UploadInput)");
  if (!CanBeUsedAs(ref.use, record.media_type)) {
    return refuse(absl::StrCat("is ", record.media_type, ", but must be ", InputUseName(ref.use)));
  }
  entry->named_until = loop_.Now() + kNamedFor;
  if (records_.is_shared()) ExtendShared(*entry);
  return absl::OkStatus();
}

void InputStore::Discard(const std::string& sha256) {
  parts_.Remove(sha256);
  FindEntry(sha256)->record.expiry = absl::InfinitePast();
}

void InputStore::Release(const std::string& sha256, int64_t left) {
  coming_ -= left;
  Entry* entry = FindEntry(sha256);
  entry->busy = false;
  if (entry->record.expiry == absl::InfinitePast()) Remove(sha256);  // discarded; Sweep handles expired ones
}

// Removes the record first; the next start removes files without one. Nothing is stored of an incomplete input, or
// another frontend has stored it.
void InputStore::Remove(const std::string& sha256) {
  Entry* entry = FindEntry(sha256);
  entry->busy = entry->leaving = true;
  const bool stored = !entry->record.media_type.empty();
  records_.RemoveInput(sha256, loop_.Now(), [this, sha256, stored](absl::Status status) {
    files_.Next().Post([this, sha256, stored, status = std::move(status)]() mutable {
      if (status.ok() && stored) status = artifacts_.Delete(InputKey(sha256));
      Post([this, sha256, status = std::move(status)] { FinishRemove(sha256, status); });
    });
  });
}

void InputStore::FinishRemove(const std::string& sha256, const absl::Status& status) {
  Entry* entry = FindEntry(sha256);
  if (entry == nullptr || !entry->leaving) return;  // another frontend has stored it, as a look has shown
  if (absl::IsAborted(status)) {                    // likewise
    entry->busy = entry->leaving = false;
    return Look({sha256}, [](const absl::Status&) {});
  }
  if (!status.ok()) {
    loop_.PostAt(loop_.Now() + rules_.sweep_interval, [this, sha256] {
      if (const Entry* again = FindEntry(sha256); again != nullptr && again->leaving) Remove(sha256);
    });
    return Log(Severity::kError, "input_not_removed", {{"input", sha256}, {"why", std::string(status.message())}});
  }
  parts_.Remove(sha256);
  taken_ -= entry->record.bytes;
  entries_.erase(sha256);
  Count();
  Log(Severity::kInfo, "input_removed", {{"input", sha256}});
}

void InputStore::RemoveExpired() {
  const absl::Time now = loop_.Now();
  std::vector<std::string> expired;
  for (const auto& [sha256, entry] : entries_) {
    if (!entry.busy && std::max(entry.record.expiry, entry.named_until) <= now) expired.push_back(sha256);
  }
  if (expired.empty()) return;
  jobs_.Unfinished([this, expired = std::move(expired)](absl::StatusOr<std::vector<UnfinishedJob>> jobs) mutable {
    if (!jobs.ok()) return;  // the next sweep retries
    Post([this, expired = std::move(expired), jobs = *std::move(jobs)] { RemoveUnused(expired, jobs); });
  });
}

// An input that a job uses is kept for another two sweep intervals.
void InputStore::RemoveUnused(const std::vector<std::string>& expired, const std::vector<UnfinishedJob>& jobs) {
  absl::flat_hash_set<std::string> used;
  for (const UnfinishedJob& job : jobs) {
    for (InputRef& ref : InputRefsOf(job.video.effective())) used.insert(std::move(ref.id));
  }
  const absl::Time now = loop_.Now();
  for (const std::string& sha256 : expired) {
    Entry* entry = FindEntry(sha256);
    if (entry == nullptr || entry->busy || std::max(entry->record.expiry, entry->named_until) > now) continue;
    if (used.contains(sha256)) {
      entry->record.expiry = now + 2 * rules_.sweep_interval;
      if (records_.is_shared()) records_.PutInput(entry->record, [](const absl::Status&) {});
    } else {
      Remove(sha256);
    }
  }
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

absl::Time InputStore::PartExpiry() const { return loop_.Now() + std::min(rules_.ttl, kPartTtl); }

v1::Input InputStore::ToInput(const InputRecord& record) const {
  v1::Input input;
  const bool whole = !record.media_type.empty();
  if (whole) input.set_id(record.sha256);
  input.set_media_type(record.media_type);
  input.set_bytes(record.bytes);
  input.set_sha256(record.sha256);
  *input.mutable_expire_time() = ToProto(record.expiry);
  input.set_received(whole ? record.bytes : parts_.Bytes(record.sha256));
  return input;
}

}  // namespace kinora
