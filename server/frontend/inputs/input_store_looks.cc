// InputStore: what is asked of the files and, where frontends share them, of the records before an input is used.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "engine/base/logging.h"
#include "server/frontend/inputs/input_store.h"

namespace kinora {

void InputStore::Look(const std::vector<std::string>& inputs, Looked then) {
  if (!records_.is_shared()) {
    return LookAtFiles(inputs, [then = std::move(then)]() mutable { then(absl::OkStatus()); });
  }
  auto on_found = [this, inputs, as_of = changes_,
                   then = std::move(then)](absl::StatusOr<std::vector<InputRecord>> found) mutable {
    Post([this, inputs, as_of, found = std::move(found), then = std::move(then)]() mutable {
      const absl::Status looked = found.status();
      if (found.ok()) Adopt(as_of, inputs, *std::move(found));
      LookAtFiles(inputs, [looked, then = std::move(then)]() mutable { then(looked); });
    });
  };
  records_.FindInputs(inputs, std::move(on_found));
}

void InputStore::Adopt(int64_t as_of, const std::vector<std::string>& asked, std::vector<InputRecord> found) {
  absl::flat_hash_map<std::string, InputRecord> records;
  for (InputRecord& record : found) records[record.sha256] = std::move(record);
  for (const std::string& sha256 : asked) {
    Entry* entry = FindEntry(sha256);
    const auto record = records.find(sha256);
    // Another frontend has stored the input that is being removed here, for example after a failed upload.
    if (entry != nullptr && entry->leaving && record != records.end() && !record->second.media_type.empty() &&
        record->second.expiry > loop_.Now()) {
      entry->leaving = entry->busy = false;
    }
    // An upload here puts its own record.
    if (entry != nullptr && (entry->busy || entry->change > as_of)) continue;
    const int64_t before = entry == nullptr ? 0 : entry->record.bytes;
    if (record == records.end()) {
      taken_ -= before;
      entries_.erase(sha256);
      if (before > 0) parts_.Remove(sha256);
      continue;
    }
    taken_ += record->second.bytes - before;
    const bool was_part = entry != nullptr && entry->record.media_type.empty();
    Entry& adopted = entries_[sha256];
    adopted.record = record->second;
    adopted.stored_expiry = adopted.record.expiry;
    if (was_part && !adopted.record.media_type.empty()) parts_.Remove(sha256);
  }
  Count();
}

void InputStore::ExtendShared(Entry& entry) {
  if (entry.record.expiry >= entry.named_until) return;
  entry.record.expiry = entry.stored_expiry = entry.named_until;
  records_.PutInput(entry.record, [](const absl::Status&) {});
}

void InputStore::LookAtFiles(const std::vector<std::string>& inputs, EventLoop::Task then) {
  std::vector<InputRecord> complete;
  for (const std::string& sha256 : inputs) {
    const Entry* entry = FindEntry(sha256);
    if (entry != nullptr && !entry->record.media_type.empty()) complete.push_back(entry->record);
  }
  if (complete.empty()) return then();
  files_.Next().Post([this, complete = std::move(complete), then = std::move(then)]() mutable {
    std::vector<absl::StatusOr<int64_t>> bytes;
    bytes.reserve(complete.size());
    for (const InputRecord& record : complete) bytes.push_back(artifacts_.Size(InputKey(record.sha256)));
    Post([this, complete = std::move(complete), bytes = std::move(bytes), then = std::move(then)]() mutable {
      for (size_t i = 0; i < complete.size(); ++i) SetFile(complete[i], bytes[i]);
      then();
    });
  });
}

void InputStore::SetFile(const InputRecord& record, const absl::StatusOr<int64_t>& bytes) {
  Entry* entry = FindEntry(record.sha256);
  if (entry == nullptr || entry->busy) return;
  const bool there = bytes.ok() && *bytes == record.bytes;
  entry->file_is_there = there;
  if (!bytes.ok() && !absl::IsNotFound(bytes.status())) entry->file_is_there = bytes.status();
  if (there || !entry->file_is_there.ok()) return;
  if (const auto not_logged = lost_.Admit()) {
    Log(Severity::kError, "input_lost",
        {{"input", record.sha256},
         {"why", bytes.ok() ? "its length changed" : std::string(bytes.status().message())},
         {"inputs", 1 + *not_logged}});
  }
}

void InputStore::Sweep() {
  loop_.PostAt(loop_.Now() + rules_.sweep_interval, [this] { Sweep(); });
  if (!records_.is_shared()) return RemoveExpired();
  records_.Inputs([this, as_of = changes_](absl::StatusOr<std::vector<InputRecord>> inputs) {
    if (!inputs.ok()) return;  // the next sweep retries
    Post([this, as_of, inputs = *std::move(inputs)]() mutable {
      std::vector<std::string> all;
      for (const auto& [sha256, entry] : entries_) all.push_back(sha256);
      for (const InputRecord& record : inputs) {
        if (!entries_.contains(record.sha256)) all.push_back(record.sha256);
      }
      Adopt(as_of, all, std::move(inputs));
      RemoveExpired();
    });
  });
}

}  // namespace kinora
