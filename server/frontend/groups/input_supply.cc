#include "server/frontend/groups/input_supply.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/common/status_details.h"
#include "server/common/upload_limits.h"

namespace kinora {
namespace {

absl::Status ReadPiece(ArtifactStore& store, const std::string& key, const v1::InputFetch& fetch,
                       v1::InputPiece& piece) {
  KINORA_ASSIGN_OR_RETURN(ArtifactPiece read, store.Read(key, std::max<int64_t>(fetch.offset(), 0), kMostUploadBytes));
  if (fetch.offset() < 0 || fetch.offset() > read.size) {
    return absl::InvalidArgumentError(absl::StrCat("offset: ", fetch.offset(), " is not within 0..", read.size));
  }
  piece.set_last(fetch.offset() + static_cast<int64_t>(read.data.size()) == read.size);
  piece.set_data(std::move(read.data));
  return absl::OkStatus();
}

}  // namespace

v1::InputPiece AnswerTo(const v1::InputFetch& fetch) {
  v1::InputPiece piece;
  piece.set_video_id(fetch.video_id());
  piece.set_attempt(fetch.attempt());
  piece.set_input_id(fetch.input_id());
  piece.set_offset(fetch.offset());
  return piece;
}

void InputSupply::Give(v1::InputFetch fetch, std::string key, std::function<void(v1::InputPiece)> done) {
  lanes_.Next().Post([this, fetch = std::move(fetch), key = std::move(key), done = std::move(done)] {
    v1::InputPiece piece = AnswerTo(fetch);
    const absl::Status read = ReadPiece(store_, key, fetch, piece);
    if (!read.ok()) *piece.mutable_error() = ToRpcStatus(read);
    done(std::move(piece));
  });
}

}  // namespace kinora
