#include "server/client/printing.h"

#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/time_util.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/common/human_text.h"
#include "server/request/clip_length.h"

namespace kinora {
namespace {

std::string FormatTime(const google::protobuf::Timestamp& time) {
  return google::protobuf::util::TimeUtil::ToString(time);
}

std::string FormatShape(const v1::Generation& g) {
  const std::string size = g.audio_only() ? "audio" : absl::StrCat(g.width(), "x", g.height());
  return absl::StrFormat("%s, %s at %g fps", size, LengthText(g), g.frame_rate());
}

void Line(std::string& out, absl::string_view name, absl::string_view value) {
  if (!value.empty()) absl::StrAppend(&out, absl::StrFormat("%-10s %s\n", name, value));
}

// The parts that a recipe needs and the model lacks, named as its files; "" if there are none.
std::string Lacking(const v1::ModelInfo::Parts& parts, const v1::ModelInfo::Parts& needs) {
  std::vector<std::string> lacking;
  if (needs.video_encoder() && !parts.video_encoder()) lacking.emplace_back("a video encoder");
  if (needs.upsampler() && !parts.upsampler()) lacking.emplace_back("spatial_upsampler=FILE");
  if (needs.distilled_lora() && !parts.distilled_lora()) lacking.emplace_back("distilled_lora=FILE");
  return absl::StrJoin(lacking, " and ");
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

std::string FormatEstimate(const v1::Estimate& estimate) {
  std::string out;
  Line(out, "clip", FormatShape(estimate.effective()));
  Line(out, "fits", estimate.fits() ? "yes" : "no");
  const bool longest = estimate.effective().has_auto_length();  // what is estimated
  Line(out, "seconds", absl::StrCat(longest ? "at most " : "", HumanSeconds(estimate.seconds())));
  Line(out, "memory", HumanBytes(estimate.device_bytes()));
  Line(out, "work", absl::StrFormat("%.3g FLOP", estimate.flops()));
  for (const std::string& problem : estimate.problems()) Line(out, "problem", problem);
  const v1::Estimate::Shape& nearest = estimate.nearest();
  if (estimate.has_nearest()) {
    Line(out, "nearest", absl::StrFormat("%dx%d, %d frames", nearest.width(), nearest.height(), nearest.num_frames()));
  }
  out.pop_back();
  return out;
}

std::string FormatModel(const v1::ModelInfo& model) {
  std::string out;
  Line(out, "model", model.id());
  Line(out, "family", absl::StrCat(model.family(), ", ", model.kind()));
  Line(out, "default", FormatShape(model.defaults()));
  if (model.parts().duration_head()) Line(out, "length", "as the model chooses, on request (--auto-length)");
  for (const v1::ModelInfo::Shape& s : model.trained_shapes()) {
    Line(out, "trained on", absl::StrCat(s.width(), "x", s.height(), ", ", s.num_frames(), " frames"));
  }
  for (const v1::ModelInfo::Limits& l : model.limits()) {
    const std::string name =
        absl::StrCat(v1::Generation::Recipe_Name(l.recipe()), l.upsampler().empty() ? "" : ", ", l.upsampler());
    const std::string lacking = Lacking(model.parts(), l.needs());
    Line(out, "recipe",
         lacking.empty()
             ? absl::StrFormat("%s: up to %dx%d, multiples of %d; frames %dk + 1, up to %d", name, l.max_width(),
                               l.max_height(), l.size_multiple(), l.frame_multiple(), l.max_frames())
             : absl::StrCat(name, ": unavailable; start the server with ", lacking));
  }
  Line(out, "loras", absl::StrJoin(model.loras(), ", "));
  out.pop_back();
  return out;
}

std::string FormatGroup(const v1::WorkerGroup& group) {
  std::string out =
      absl::StrFormat("group %s  %-9s %s", group.id().empty() ? "?" : group.id(), group.state(), group.model());
  if (!group.mesh().empty()) absl::StrAppend(&out, "  ", group.mesh());
  if (!group.video_id().empty()) absl::StrAppend(&out, "  job ", group.video_id());
  if (!group.frontend().empty()) absl::StrAppend(&out, "  at ", group.frontend());
  if (!group.reason().empty()) absl::StrAppend(&out, "  (", group.reason(), ")");
  for (const v1::WorkerGroup::Rank& rank : group.ranks()) {
    absl::StrAppend(&out, "\n  rank ", rank.rank(), "  ", rank.device(), "  ", rank.address());
    if (rank.has_last_heartbeat()) absl::StrAppend(&out, "  heartbeat ", FormatTime(rank.last_heartbeat()));
  }
  return out;
}

}  // namespace kinora
