#include "server/tools/printing.h"

#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/time_util.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace kinora {
namespace {

std::string FormatTime(const google::protobuf::Timestamp& time) {
  return google::protobuf::util::TimeUtil::ToString(time);
}

std::string FormatBytes(int64_t bytes) {
  if (bytes >= int64_t{1} << 30) return absl::StrFormat("%.2f GiB", bytes / 1073741824.0);
  if (bytes >= int64_t{1} << 20) return absl::StrFormat("%.1f MiB", bytes / 1048576.0);
  return absl::StrCat(bytes, " bytes");
}

std::string FormatShape(const v1::Generation& g) {
  if (g.audio_only()) return absl::StrFormat("audio, %d frames at %g fps", g.num_frames(), g.frame_rate());
  return absl::StrFormat("%dx%d, %d frames at %g fps", g.width(), g.height(), g.num_frames(), g.frame_rate());
}

std::string FormatProgress(const v1::Progress& progress) {
  return absl::StrFormat("%s, %.0f%%", FormatReached(progress), progress.fraction() * 100);
}

void Line(std::string& out, absl::string_view name, absl::string_view value) {
  if (!value.empty()) absl::StrAppend(&out, absl::StrFormat("%-10s %s\n", name, value));
}

}  // namespace

std::string ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(message, &text, options);
  return status.ok() ? text : absl::StrCat("{\"unprintable\":\"", message.GetTypeName(), "\"}");
}

void PrintLine(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

bool IsTerminal(v1::Video::State state) {
  return state == v1::Video::COMPLETED || state == v1::Video::FAILED || state == v1::Video::CANCELLED;
}

std::string FormatReached(const v1::Progress& progress) {
  if (progress.total_steps() == 0) return progress.stage();
  return absl::StrCat(progress.stage(), " ", progress.step(), "/", progress.total_steps());
}

std::string FormatVideo(const v1::Video& video) {
  std::string out;
  Line(out, "id", video.id());
  Line(out, "state", v1::Video::State_Name(video.state()));
  if (video.has_error()) Line(out, "error", video.error().message());
  Line(out, "model", video.model());
  if (video.has_effective()) {
    const v1::Generation& g = video.effective();
    Line(out, "clip", FormatShape(g));
    Line(out, "recipe", absl::StrCat(v1::Generation::Recipe_Name(g.recipe()), ", seed ", g.seed()));
  }
  if (video.queue_position() > 0) Line(out, "queue", absl::StrCat("position ", video.queue_position()));
  if (video.attempt() > 0) Line(out, "attempt", absl::StrCat(video.attempt()));
  if (!video.progress().stage().empty()) Line(out, "progress", FormatProgress(video.progress()));
  if (video.has_create_time()) Line(out, "created", FormatTime(video.create_time()));
  if (video.has_start_time()) Line(out, "started", FormatTime(video.start_time()));
  if (video.has_end_time()) Line(out, "ended", FormatTime(video.end_time()));
  if (video.has_expire_time()) Line(out, "expires", FormatTime(video.expire_time()));
  for (const auto& [key, value] : video.labels()) Line(out, "label", absl::StrCat(key, "=", value));
  for (const v1::Artifact& a : video.artifacts()) {
    Line(out, "artifact", absl::StrCat(a.id(), "  ", a.media_type(), "  ", FormatBytes(a.bytes())));
  }
  if (video.usage().device_seconds() > 0) {
    Line(out, "usage",
         absl::StrFormat("%.1f device seconds, %.1f s in the queue, peak %s", video.usage().device_seconds(),
                         video.usage().queue_seconds(), FormatBytes(video.usage().peak_device_bytes())));
  }
  out.pop_back();
  return out;
}

std::string FormatVideoRow(const v1::Video& video) {
  return absl::StrFormat("%s  %-10s  %s  %s  %s", video.id(), v1::Video::State_Name(video.state()),
                         FormatTime(video.create_time()), FormatShape(video.effective()), video.model());
}

std::string FormatEstimate(const v1::Estimate& estimate) {
  std::string out;
  Line(out, "clip", FormatShape(estimate.effective()));
  Line(out, "fits", estimate.fits() ? "yes" : "no");
  Line(out, "seconds", absl::StrFormat("%.1f", estimate.seconds()));
  Line(out, "memory", FormatBytes(estimate.device_bytes()));
  Line(out, "work", absl::StrFormat("%.3g FLOP", estimate.flops()));
  for (const std::string& problem : estimate.problems()) Line(out, "problem", problem);
  out.pop_back();
  return out;
}

std::string FormatModel(const v1::ModelInfo& model) {
  std::string out;
  Line(out, "model", model.id());
  Line(out, "family", absl::StrCat(model.family(), ", ", model.kind()));
  Line(out, "default", FormatShape(model.defaults()));
  for (const v1::ModelInfo::Limits& l : model.limits()) {
    Line(out, "recipe",
         absl::StrFormat("%s%s%s: up to %dx%d, multiples of %d; frames %dk + 1, up to %d",
                         v1::Generation::Recipe_Name(l.recipe()), l.upsampler().empty() ? "" : ", ", l.upsampler(),
                         l.max_width(), l.max_height(), l.size_multiple(), l.frame_multiple(), l.max_frames()));
  }
  Line(out, "loras", absl::StrJoin(model.loras(), ", "));
  out.pop_back();
  return out;
}

std::string FormatGroup(const v1::WorkerGroup& group) {
  std::string out = absl::StrFormat("group %s  %-9s %s", group.id(), group.state(), group.model());
  if (!group.mesh().empty()) absl::StrAppend(&out, "  ", group.mesh());
  if (!group.video_id().empty()) absl::StrAppend(&out, "  job ", group.video_id());
  if (!group.reason().empty()) absl::StrAppend(&out, "  (", group.reason(), ")");
  for (const v1::WorkerGroup::Rank& rank : group.ranks()) {
    absl::StrAppend(&out, "\n  rank ", rank.rank(), "  ", rank.device(), "  ", rank.address());
    if (rank.has_last_heartbeat()) absl::StrAppend(&out, "  heartbeat ", FormatTime(rank.last_heartbeat()));
  }
  return out;
}

}  // namespace kinora
