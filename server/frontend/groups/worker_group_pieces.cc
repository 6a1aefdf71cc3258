// Pieces of artifacts and of inputs, which rank 0 of a group sends and fetches over its stream.
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/common/status_details.h"
#include "server/common/upload_limits.h"
#include "server/frontend/groups/input_supply.h"
#include "server/frontend/groups/worker_group.h"

namespace kinora {
namespace {

bool IsOfOneArtifact(const v1::UploadChunk& a, const v1::UploadChunk& b) {
  return a.video_id() == b.video_id() && a.attempt() == b.attempt() && a.name() == b.name();
}

}  // namespace

void WorkerGroup::OnChunk(const Rank& rank, const v1::UploadChunk& chunk) {
  if (rank.hello.rank() != 0) {
    return Lose(LossReason::kRankFailed,
                absl::StrCat("rank ", rank.hello.rank(), " failed: it sent an artifact, which only rank 0 may do"));
  }
  // Rank 0 may give up an artifact and begin another. This bounds what it can queue here.
  const bool begins_another =
      unanswered_.size() == 1 && chunk.offset() == 0 && !IsOfOneArtifact(chunk, unanswered_.front());
  if (!unanswered_.empty() && !begins_another) {
    return Lose(LossReason::kRankFailed, "rank 0 failed: it sent a chunk before the previous one was acknowledged");
  }
  if (!uploads_ || !IsOfThisRun(chunk.video_id(), chunk.attempt())) {
    return AnswerUpload(chunk, absl::AbortedError("the artifact belongs to no run of this group"));
  }
  if (chunk.data().size() > kMostUploadBytes) {
    return AnswerUpload(
        chunk, absl::InvalidArgumentError(
                   absl::StrCat("data: ", chunk.data().size(), " bytes; at most ", kMostUploadBytes, " are allowed")));
  }
  v1::UploadChunk& place = unanswered_.emplace_back(chunk);
  place.clear_data();
  listener_.OnUpload(*this, chunk);
}

void WorkerGroup::AnswerUpload(const v1::UploadChunk& chunk, const absl::Status& status) {
  std::erase_if(unanswered_, [&](const v1::UploadChunk& of) { return IsOfOneArtifact(of, chunk); });
  v1::FrontendMessage message;
  v1::UploadAnswer& answer = *message.mutable_upload_answer();
  answer.set_video_id(chunk.video_id());
  answer.set_attempt(chunk.attempt());
  answer.set_name(chunk.name());
  if (!status.ok()) *answer.mutable_error() = ToRpcStatus(status);
  SendToRankZero(message);
}

void WorkerGroup::OnInputFetch(const Rank& rank, const v1::InputFetch& fetch) {
  if (rank.hello.rank() != 0 || fetch_unanswered_) {
    return Lose(LossReason::kRankFailed, absl::StrCat("rank ", rank.hello.rank(), " failed: it requested an input, ",
                                                      fetch_unanswered_ ? "but its previous request is unanswered"
                                                                        : "which only rank 0 may do"));
  }
  const bool known = uploads_ && IsOfThisRun(fetch.video_id(), fetch.attempt());
  if (!known || !run_->input_paths().contains(fetch.input_id())) {
    v1::InputPiece none = AnswerTo(fetch);
    *none.mutable_error() = ToRpcStatus(known ? absl::NotFoundError("the run does not use this input")
                                              : absl::AbortedError("the input belongs to no run of this group"));
    return SendPiece(std::move(none));
  }
  fetch_unanswered_ = true;
  listener_.OnFetch(*this, fetch);
}

void WorkerGroup::SendPiece(v1::InputPiece piece) {
  fetch_unanswered_ = false;
  v1::FrontendMessage message;
  *message.mutable_input_piece() = std::move(piece);
  SendToRankZero(message);
}

}  // namespace kinora
