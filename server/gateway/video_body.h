// Answers as JSON: the union of what OpenAI, SGLang and vLLM-Omni return, and the fields of this server. A field that a
// video does not have is null, never missing. Every function returns compact JSON in UTF-8 without a newline.
#ifndef KINORA_SERVER_GATEWAY_VIDEO_BODY_H_
#define KINORA_SERVER_GATEWAY_VIDEO_BODY_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "kinora/v1/video_generation.pb.h"

namespace kinora {

// "queued", "in_progress", "completed" or "failed". A cancelled job is "failed" with error.code "cancelled".
std::string_view VideoStatus(v1::Video::State state);

// `seconds` is a string. `url` is the path of the clip, once it is complete. `parameters` holds the effective request
// in the names of fields (create_fields.h).
std::string VideoBody(const v1::Video& video);
bool HasEnded(const v1::Video& video);
// The value of openai-poll-after-ms, which tells OpenAI's client when to ask again; "": the job has ended.
std::string PollMilliseconds(const v1::Video& video);
std::string DeletedBody(std::string_view id);
// url: the path and query of a link to an artifact, which works until `expiry`.
std::string LinkBody(std::string_view url, absl::Time expiry);

// first_id and last_id are null if `videos` is empty.
std::string VideoListBody(absl::Span<const v1::Video> videos, bool has_more);

std::string ModelBody(const v1::ModelInfo& model);
std::string ModelListBody(const v1::ListModelsResponse& models);

std::string EstimateBody(const v1::Estimate& estimate, std::string_view model);

// The worker groups of all frontends whose admin addresses are known.
struct GroupListing {
  struct Group {
    std::string frontend;  // its admin address
    v1::WorkerGroup group;
    std::optional<v1::Progress> progress;  // of the job that it runs
  };
  struct Failure {
    std::string frontend;
    absl::Status status;  // not OK
  };
  std::vector<Group> groups;
  std::vector<Failure> failures;
};
// Groups have the names of WorkerGroup, with `frontend` and `progress`.
std::string GroupListBody(const GroupListing& listing);

// One event of GET /v1/videos/{id}/events (text/event-stream), with its blank line:
//   id: SEQUENCE          what a client sends as Last-Event-ID; not for heartbeats and previews
//   event: snapshot | state | terminal     data: a Video
//          stage | step                    data: {"object":"video.progress", …}
//          preview                         data: {"object":"video.preview", "media_type", "step", "stage", "image"}, a
//                                          data: URL
// A heartbeat is a comment. Returns "" for an event of another kind, which a newer server may send.
std::string EventText(const v1::VideoEvent& event);

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_VIDEO_BODY_H_
