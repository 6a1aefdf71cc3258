// Answers of stores as texts that can be compared and read. Errors are their code and reason: messages may differ.
#ifndef KINORA_TESTS_SERVER_FRONTEND_JOBS_STORE_TEXTS_H_
#define KINORA_TESTS_SERVER_FRONTEND_JOBS_STORE_TEXTS_H_

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/common/status_details.h"
#include "server/frontend/inputs/input_records.h"
#include "server/frontend/jobs/job_store.h"

namespace kinora {

inline std::string Text(const absl::Status& status) {
  return absl::StrCat(absl::StatusCodeToString(status.code()), " ", ErrorReason(status));
}
inline std::string Text(bool value) { return value ? "true" : "false"; }
inline std::string Text(const google::protobuf::Message& message) { return message.DebugString(); }
inline std::string Text(v1::Video video) {
  std::string error;
  if (video.has_error()) error = Text(FromRpcStatus(video.error()));
  video.clear_error();
  return absl::StrCat(video.DebugString(), "error: ", error, "\n");
}
inline std::string Text(v1::VideoEvent event) {
  std::string video;
  if (event.has_state()) video = Text(event.state());
  if (event.has_terminal()) video = Text(event.terminal());
  if (event.has_state()) event.mutable_state()->Clear();
  if (event.has_terminal()) event.mutable_terminal()->Clear();
  return absl::StrCat(event.DebugString(), video);
}
inline std::string Text(const Created& created) {
  return absl::StrCat("replayed: ", created.replayed, "\n", Text(created.video));
}
inline std::string Text(const Attempt& attempt) {
  return absl::StrCat("attempt ", attempt.number, " of ", attempt.id, " by ", attempt.owner, "\n");
}
inline std::string Text(const std::optional<v1::ResumeMark>& resume) {
  return resume ? resume->DebugString() : "no resume point\n";
}
inline std::string Text(const Claimed& claimed) {
  return absl::StrCat(Text(claimed.attempt), Text(claimed.video), Text(claimed.resume));
}
inline std::string Text(const Lease& lease) {
  return absl::StrCat("until ", absl::FormatTime(lease.expiry), " cancel_requested: ", lease.cancel_requested);
}
inline std::string Text(const UnfinishedJob& job) {
  const bool leased = job.attempt.number > 0;  // the expiry means something
  return absl::StrCat(Text(job.video), job.scheduling.DebugString(), Text(job.attempt), Text(job.resume),
                      "detach: ", job.detach, " cancel_requested: ", job.cancel_requested,
                      leased ? absl::FormatTime(job.lease_expiry) : "", "\n");
}
inline std::string Text(const InputRecord& input) {
  return absl::StrCat(input.sha256, " ", input.bytes, " ", input.media_type, " ", absl::FormatTime(input.expiry), "\n");
}
template <typename T>
std::string Text(const std::vector<T>& list) {
  return absl::StrJoin(list, "", [](std::string* out, const T& value) { out->append(Text(value)); });
}
template <typename T>
std::string Text(const absl::StatusOr<T>& answer) {
  return answer.ok() ? Text(*answer) : Text(answer.status());
}
// The order does not matter.
inline std::string TextOfSet(absl::StatusOr<std::vector<std::string>> ids) {
  if (!ids.ok()) return Text(ids.status());
  std::sort(ids->begin(), ids->end());
  return absl::StrJoin(*ids, "\n");
}

// "" if the texts are the same.
inline std::string Difference(const std::string& store, const std::string& model) {
  return store == model ? "" : absl::StrCat("the store says\n", store, "\nbut the model\n", model, "\n");
}

// Messages that are equal byte for byte have the same text, which takes much longer.
inline std::string Bytes(const v1::Video& video) { return video.SerializeAsString(); }
inline std::string Bytes(const v1::VideoEvent& event) { return event.SerializeAsString(); }
inline std::string Bytes(const UnfinishedJob& job) {
  return absl::StrCat(Bytes(job.video), job.scheduling.SerializeAsString(), Text(job.attempt),
                      job.resume ? job.resume->SerializeAsString() : "", job.detach, job.cancel_requested,
                      job.attempt.number > 0 ? absl::ToUnixNanos(job.lease_expiry) : 0);
}

// "" if the lists have the same texts; otherwise the first that differ.
template <typename T>
std::string Difference(const absl::StatusOr<std::vector<T>>& store, const absl::StatusOr<std::vector<T>>& model) {
  if (!store.ok() || !model.ok()) {
    return Difference(store.ok() ? "a list" : Text(store.status()), model.ok() ? "a list" : Text(model.status()));
  }
  const auto same = [](const T& a, const T& b) { return Bytes(a) == Bytes(b) || Text(a) == Text(b); };
  const auto [a, b] = std::mismatch(store->begin(), store->end(), model->begin(), model->end(), same);
  return Difference(a == store->end() ? "nothing more" : Text(*a), b == model->end() ? "nothing more" : Text(*b));
}
inline std::string Difference(const absl::StatusOr<JobHistory>& store, const absl::StatusOr<JobHistory>& model) {
  if (!store.ok() || !model.ok()) {
    return Difference(store.ok() ? "a history" : Text(store.status()), model.ok() ? "a history" : Text(model.status()));
  }
  using Videos = absl::StatusOr<std::vector<v1::Video>>;
  using Events = absl::StatusOr<std::vector<v1::VideoEvent>>;
  return Difference(Videos({store->video}), Videos({model->video})) +
         Difference(Events(store->events), Events(model->events)) +
         Difference(absl::StrCat("last_sequence: ", store->last_sequence),
                    absl::StrCat("last_sequence: ", model->last_sequence));
}

}  // namespace kinora

#endif  // KINORA_TESTS_SERVER_FRONTEND_JOBS_STORE_TEXTS_H_
