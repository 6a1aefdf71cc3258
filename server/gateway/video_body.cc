#include "server/gateway/video_body.h"

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "server/common/status_details.h"
#include "server/common/timestamps.h"
#include "server/gateway/create_fields.h"
#include "server/gateway/error_body.h"
#include "server/gateway/field_json.h"
#include "server/request/clip_length.h"

namespace kinora {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kPollMilliseconds = 1000;  // without an estimate
constexpr int64_t kLeastPollMilliseconds = 250, kMostPollMilliseconds = 5000;

// Unix time in whole seconds, as the OpenAI client requires.
Json UnixSeconds(bool has, const google::protobuf::Timestamp& time) {
  return has ? Json(time.seconds()) : Json(nullptr);
}

Json OrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

// A map as an object, in the order of its keys: protobuf's own order varies.
template <typename Map>
Json Sorted(const Map& map) {
  Json out = Json::object();
  for (const auto& [key, value] : std::map<std::string, typename Map::mapped_type>(map.begin(), map.end())) {
    out[key] = value;
  }
  return out;
}

Json SizeOf(const v1::Generation& generation) {
  if (generation.audio_only() || generation.width() <= 0 || generation.height() <= 0) return nullptr;
  return absl::StrCat(generation.width(), "x", generation.height());
}

// "4.042": seconds with at most three decimals.
std::string SecondsOf(const v1::Video& video) {
  const double rate = video.effective().frame_rate();
  std::string text = absl::StrFormat("%.3f", rate > 0 ? FramesOf(video) / rate : 0);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

// OpenAI's is an integer.
int PercentOf(const v1::Video& video) {
  if (video.state() == v1::Video::COMPLETED) return 100;
  return static_cast<int>(std::clamp(video.progress().fraction(), 0.0, 1.0) * 100);
}

Json ErrorOf(const v1::Video& video) {
  if (video.state() == v1::Video::CANCELLED) return {{"code", "cancelled"}, {"message", "The job was cancelled"}};
  if (video.state() != v1::Video::FAILED) return nullptr;
  const absl::Status status = WithoutDirectories(FromRpcStatus(video.error()));
  return {{"code", ErrorCode(status)}, {"message", ErrorMessage(status)}};
}

Json ProgressOf(const v1::Progress& progress) {
  return {{"stage", OrNull(progress.stage())},
          {"step", progress.step()},
          {"total_steps", progress.total_steps()},
          {"fraction", progress.fraction()},
          {"remaining_seconds",
           progress.has_remaining() ? Json(absl::ToDoubleSeconds(FromProto(progress.remaining()))) : Json(nullptr)}};
}

Json ResumedFrom(const v1::Resolved& resolved) {
  if (resolved.resumed_from_stage().empty()) return nullptr;
  return {{"stage", resolved.resumed_from_stage()}, {"step", resolved.resumed_from_step()}};
}

Json GroupOf(const GroupListing::Group& listed) {
  const v1::WorkerGroup& group = listed.group;
  Json ranks = Json::array();
  for (const v1::WorkerGroup::Rank& rank : group.ranks()) {
    ranks.push_back({{"rank", rank.rank()},
                     {"address", OrNull(rank.address())},
                     {"device", OrNull(rank.device())},
                     {"last_heartbeat", UnixSeconds(rank.has_last_heartbeat(), rank.last_heartbeat())}});
  }
  return {{"frontend", listed.frontend},
          {"id", group.id()},
          {"state", group.state()},
          {"reason", OrNull(group.reason())},
          {"model", OrNull(group.model())},
          {"mesh", OrNull(group.mesh())},
          {"video_id", OrNull(group.video_id())},
          {"progress", listed.progress ? ProgressOf(*listed.progress) : Json(nullptr)},
          {"ranks", std::move(ranks)}};
}

// The artifact that GET …/content sends without a variant.
const v1::Artifact* ClipOf(const v1::Video& video) {
  for (const v1::Artifact& artifact : video.artifacts()) {
    if (artifact.media_type() != "application/json" && artifact.media_type() != "image/jpeg") return &artifact;
  }
  return nullptr;
}

// What OpenAI, SGLang and vLLM-Omni have.
void AddCommon(const v1::Video& video, Json& out) {
  const v1::Generation& effective = video.effective();
  const v1::Artifact* clip = video.state() == v1::Video::COMPLETED ? ClipOf(video) : nullptr;
  const v1::Usage& usage = video.usage();
  out["id"] = video.id();
  out["object"] = "video";
  out["model"] = video.model();
  out["prompt"] = effective.prompt();
  out["status"] = VideoStatus(video.state());
  out["progress"] = PercentOf(video);
  out["created_at"] = video.create_time().seconds();
  out["completed_at"] = UnixSeconds(video.state() == v1::Video::COMPLETED && video.has_end_time(), video.end_time());
  out["expires_at"] = UnixSeconds(video.has_expire_time(), video.expire_time());
  out["size"] = SizeOf(effective);
  out["seconds"] = SecondsOf(video);
  out["quality"] = "standard";
  out["remixed_from_video_id"] = nullptr;
  out["error"] = ErrorOf(video);
  out["url"] = nullptr;  // clients take it for an absolute URL of a store; without it they use …/content
  out["media_type"] = clip == nullptr ? Json(nullptr) : Json(clip->media_type());
  out["file_name"] = clip == nullptr ? Json(nullptr) : OrNull(clip->file_name());
  out["file_path"] = nullptr;  // paths of a server are never shown
  out["file_paths"] = nullptr;
  out["num_outputs"] = 1;
  out["action"] = nullptr;
  out["inference_time_s"] = video.has_usage() ? Json(usage.device_seconds()) : Json(nullptr);
  out["peak_memory_mb"] =
      video.has_usage() ? Json(static_cast<double>(usage.peak_device_bytes()) / 1e6) : Json(nullptr);
  out["stage_durations"] = Sorted(usage.stage_seconds());
}

Json ArtifactsOf(const v1::Video& video) {
  Json list = Json::array();
  for (const v1::Artifact& artifact : video.artifacts()) {
    list.push_back({{"id", artifact.id()},
                    {"media_type", artifact.media_type()},
                    {"bytes", artifact.bytes()},
                    {"sha256", artifact.sha256()},
                    {"file_name", artifact.file_name()}});
  }
  return list;
}

// What only this server has.
void AddOwn(const v1::Video& video, Json& out) {
  const v1::Generation& effective = video.effective();
  Json parameters = ToFields(effective, video.output());
  parameters["model"] = video.model();
  out["state"] = absl::AsciiStrToLower(v1::Video::State_Name(video.state()));
  out["num_frames"] = FramesOf(video);
  out["fps"] = effective.frame_rate();
  out["seed"] = parameters.value("seed", Json(nullptr));
  out["started_at"] = UnixSeconds(video.has_start_time(), video.start_time());
  out["ended_at"] = UnixSeconds(video.has_end_time(), video.end_time());
  out["queue_position"] = video.queue_position() > 0 ? Json(video.queue_position()) : Json(nullptr);
  out["queue_seconds"] = video.has_usage() ? Json(video.usage().queue_seconds()) : Json(nullptr);
  out["estimated_seconds"] = video.estimated_seconds() > 0 ? Json(video.estimated_seconds()) : Json(nullptr);
  out["attempt"] = video.attempt();
  out["waits_for"] = OrNull(video.waits_for());
  out["preemptions"] = video.preemptions();
  out["resume_point"] = video.has_resume_point() ? ProgressOf(video.resume_point()) : Json(nullptr);
  out["resumed_from"] = ResumedFrom(video.resolved());
  out["not_resumed_because"] = OrNull(video.resolved().not_resumed_because());
  out["progress_details"] = video.has_progress() ? ProgressOf(video.progress()) : Json(nullptr);
  out["request_id"] = OrNull(video.request_id());
  out["metadata"] = Sorted(video.labels());
  out["warnings"] = Json::array();
  for (const std::string& warning : video.resolved().warnings()) out["warnings"].push_back(warning);
  out["digests"] = Sorted(video.resolved().digests());
  out["artifacts"] = ArtifactsOf(video);
  out["parameters"] = std::move(parameters);
}

Json VideoJson(const v1::Video& video) {
  Json out = Json::object();
  AddCommon(video, out);
  AddOwn(video, out);
  return out;
}

std::string Event(const v1::VideoEvent& event, std::string_view name, bool numbered, const Json& data) {
  return absl::StrCat(numbered ? absl::StrCat("id: ", event.sequence(), "\n") : "", "event: ", std::string(name),
                      "\ndata: ", ToText(data), "\n\n");
}

Json ProgressEvent(const v1::VideoEvent& event, const v1::Progress& progress) {
  Json data = {{"object", "video.progress"}, {"id", event.video_id()}};
  data.update(ProgressOf(progress));
  return data;
}

Json PreviewEvent(const v1::VideoEvent& event) {
  const v1::Preview& preview = event.preview();
  return {{"object", "video.preview"},
          {"id", event.video_id()},
          {"media_type", preview.media_type()},
          {"step", preview.step()},
          {"stage", preview.stage()},
          {"image", absl::StrCat("data:", preview.media_type(), ";base64,", absl::Base64Escape(preview.image()))}};
}

}  // namespace

std::string_view VideoStatus(v1::Video::State state) {
  switch (state) {
    case v1::Video::RUNNING:
    case v1::Video::FINALIZING:
      return "in_progress";
    case v1::Video::COMPLETED:
      return "completed";
    case v1::Video::FAILED:
    case v1::Video::CANCELLED:
      return "failed";
    default:
      return "queued";
  }
}

std::string VideoBody(const v1::Video& video) { return ToText(VideoJson(video)); }

bool HasEnded(const v1::Video& video) {
  const std::string_view status = VideoStatus(video.state());
  return status == "completed" || status == "failed";
}

std::string PollMilliseconds(const v1::Video& video) {
  if (HasEnded(video)) return "";
  if (!video.progress().has_remaining()) return absl::StrCat(kPollMilliseconds);
  const int64_t left = absl::ToInt64Milliseconds(FromProto(video.progress().remaining()));
  return absl::StrCat(std::clamp(left, kLeastPollMilliseconds, kMostPollMilliseconds));
}

std::string DeletedBody(std::string_view id) {
  return ToText({{"id", id}, {"object", "video.deleted"}, {"deleted", true}});
}

std::string LinkBody(std::string_view url, absl::Time expiry) {
  return ToText({{"url", url}, {"expires_at", absl::ToUnixSeconds(expiry)}});
}

std::string GroupListBody(const GroupListing& listing) {
  Json data = Json::array(), failures = Json::array();
  for (const GroupListing::Group& group : listing.groups) data.push_back(GroupOf(group));
  for (const GroupListing::Failure& failure : listing.failures) {
    failures.push_back({{"frontend", failure.frontend}, {"message", ErrorMessage(failure.status)}});
  }
  return ToText({{"object", "list"}, {"data", std::move(data)}, {"failures", std::move(failures)}});
}

std::string VideoListBody(absl::Span<const v1::Video> videos, bool has_more) {
  Json data = Json::array();
  for (const v1::Video& video : videos) data.push_back(VideoJson(video));
  const Json first = videos.empty() ? Json(nullptr) : Json(videos.front().id());
  const Json last = videos.empty() ? Json(nullptr) : Json(videos.back().id());
  return ToText(
      {{"object", "list"}, {"data", std::move(data)}, {"first_id", first}, {"last_id", last}, {"has_more", has_more}});
}

std::string EventText(const v1::VideoEvent& event) {
  switch (event.event_case()) {
    case v1::VideoEvent::kSnapshot:
      return Event(event, "snapshot", true, VideoJson(event.snapshot()));
    case v1::VideoEvent::kState:
      return Event(event, "state", true, VideoJson(event.state()));
    case v1::VideoEvent::kTerminal:
      return Event(event, "terminal", true, VideoJson(event.terminal()));
    case v1::VideoEvent::kStage:
      return Event(event, "stage", true, ProgressEvent(event, event.stage()));
    case v1::VideoEvent::kStep:
      return Event(event, "step", true, ProgressEvent(event, event.step()));
    case v1::VideoEvent::kPreview:
      return Event(event, "preview", false, PreviewEvent(event));
    case v1::VideoEvent::kHeartbeat:
      return ": heartbeat\n\n";
    case v1::VideoEvent::EVENT_NOT_SET:
      return "";
  }
  return "";
}

}  // namespace kinora
