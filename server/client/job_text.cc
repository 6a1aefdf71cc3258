#include "server/client/job_text.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "engine/request/stage.h"
#include "server/client/job_lookup.h"
#include "server/common/human_text.h"
#include "server/common/timestamps.h"
#include "server/request/clip_length.h"

namespace kinora {
namespace {

using Row = std::array<std::string, 7>;
constexpr const char* kRowHeader[] = {"ID", "STATE", "AGE", "SECONDS", "SIZE", "SEED", "PROMPT"};

std::string FormatTime(const google::protobuf::Timestamp& time, absl::Time now) {
  const absl::Time at = FromProto(time);
  const std::string age = at <= now ? absl::StrCat(HumanAge(absl::ToDoubleSeconds(now - at)), " ago")
                                    : absl::StrCat("in ", HumanTimeLeft(absl::ToDoubleSeconds(at - now)));
  return absl::StrCat(absl::FormatTime("%Y-%m-%d %H:%M:%S", at, absl::LocalTimeZone()), " (", age, ")");
}

void Line(std::string& out, absl::string_view name, absl::string_view value) {
  if (!value.empty()) absl::StrAppend(&out, absl::StrFormat("%-10s %s\n", name, value));
}

// Indents the further lines of a prompt.
void PromptLine(std::string& out, absl::string_view name, absl::string_view prompt) {
  Line(out, name, absl::StrReplaceAll(Printable(prompt, /*keep_lines=*/true), {{"\n", "\n           "}}));
}

std::string FormatClip(const v1::Generation& g) {
  const std::string size = g.audio_only() ? "audio" : absl::StrCat(g.width(), "x", g.height());
  std::string text = absl::StrFormat("%s, %s at %g fps", size, LengthText(g), g.frame_rate());
  if (g.frame_rate() > 0 && g.num_frames() > 0)
    absl::StrAppendFormat(&text, ", %.2f s", g.num_frames() / g.frame_rate());
  return text;
}

// The active terms: "cfg 3, stg 1 in blocks 28 29, rescale 0.7"; empty if none.
std::string FormatGuidance(const v1::Guidance& g) {
  std::vector<std::string> terms;
  if (g.has_cfg_scale() && g.cfg_scale() != 1) terms.push_back(absl::StrFormat("cfg %g", g.cfg_scale()));
  if (g.has_stg_scale() && g.stg_scale() != 0) {
    terms.push_back(absl::StrFormat("stg %g", g.stg_scale()));
    if (g.stg_blocks_size() > 0) absl::StrAppend(&terms.back(), " in blocks ", absl::StrJoin(g.stg_blocks(), " "));
  }
  if (g.has_modality_scale() && g.modality_scale() != 1) {
    terms.push_back(absl::StrFormat("modality %g", g.modality_scale()));
  }
  if (g.has_rescale() && g.rescale() != 0) terms.push_back(absl::StrFormat("rescale %g", g.rescale()));
  if (g.has_skip_step() && g.skip_step() != 0) terms.push_back(absl::StrFormat("skip step %d", g.skip_step()));
  return absl::StrJoin(terms, ", ");
}

void GenerationLines(const v1::Generation& g, std::string& out) {
  PromptLine(out, "prompt", g.prompt());
  PromptLine(out, "negative", g.negative_prompt());
  Line(out, "clip", FormatClip(g));
  const std::string steps = g.num_inference_steps() > 0 ? absl::StrCat(", ", g.num_inference_steps(), " steps") : "";
  Line(out, "recipe", absl::StrCat(v1::Generation::Recipe_Name(g.recipe()), steps));
  Line(out, "seed", absl::StrCat(g.seed()));
  const std::string video = FormatGuidance(g.video_guidance()), audio = FormatGuidance(g.audio_guidance());
  if (video == audio) return Line(out, "guidance", video);
  Line(out, "guidance", absl::StrCat("video: ", video.empty() ? "off" : video));
  Line(out, "", absl::StrCat("audio: ", audio.empty() ? "off" : audio));
}

// In the order of a run; unknown ones, from other versions, at the end.
std::string FormatStages(const google::protobuf::Map<std::string, double>& stages) {
  const auto place = [](const std::string& name) {
    const StageRow* const row = FindStage(name);
    return (row != nullptr ? row : std::end(kStages)) - kStages;
  };
  std::vector<std::pair<std::string, double>> sorted(stages.begin(), stages.end());
  std::sort(sorted.begin(), sorted.end(), [&](const auto& a, const auto& b) {
    return std::pair(place(a.first), a.first) < std::pair(place(b.first), b.first);
  });
  return absl::StrJoin(sorted, ", ", [](std::string* out, const auto& stage) {
    absl::StrAppend(out, stage.first, " ", HumanSeconds(stage.second));
  });
}

void UsageLines(const v1::Usage& usage, std::string& out) {
  if (usage.queue_seconds() > 0) Line(out, "waited", HumanSeconds(usage.queue_seconds()));
  if (usage.device_seconds() > 0) Line(out, "computed", HumanSeconds(usage.device_seconds()));
  Line(out, "stages", FormatStages(usage.stage_seconds()));
  const int64_t measured = usage.peak_device_bytes(), planned = usage.planned_device_bytes();
  if (measured <= 0) return;
  const int64_t larger = std::max(measured, planned);
  const std::string plan = planned > 0 ? absl::StrCat(", planned ", HumanBytesLike(planned, larger)) : "";
  Line(out, "memory", absl::StrCat("measured ", HumanBytesLike(measured, larger), plan));
}

std::string FormatState(const v1::Video& video) {
  std::string name = v1::Video::State_Name(video.state());
  if (video.state() == v1::Video::RUNNING) return absl::StrFormat("%s %.0f%%", name, video.progress().fraction() * 100);
  if (video.queue_position() > 0) absl::StrAppend(&name, " #", video.queue_position());
  if (video.state() == v1::Video::QUEUED && video.has_resume_point()) {
    absl::StrAppendFormat(&name, ", %.0f%% done", video.resume_point().fraction() * 100);
  }
  return name;
}

std::string FormatTaken(const v1::Video& video, absl::Time now) {
  if (!video.has_start_time() || video.state() == v1::Video::QUEUED) {
    const bool waits = video.state() == v1::Video::QUEUED && video.estimated_seconds() > 0;
    return waits ? absl::StrCat("~", HumanSeconds(video.estimated_seconds())) : "-";
  }
  const absl::Time end = video.has_end_time() ? FromProto(video.end_time()) : now;
  return HumanSeconds(std::max(0.0, absl::ToDoubleSeconds(end - FromProto(video.start_time()))));
}

std::string FormatSize(const v1::Generation& g) {
  const std::string frames = g.num_frames() > 0 ? absl::StrCat(g.num_frames()) : "?";
  if (g.audio_only()) return "audio " + frames;
  return absl::StrCat(g.width(), "x", g.height(), "x", frames);
}

std::string TimesText(int times) { return times == 1 ? "once" : absl::StrCat(times, " times"); }

std::string AttemptText(const v1::Resolved& resolved) {
  const std::string resumed = FormatResumed(resolved);
  return resumed.empty() ? "" : ", " + resumed;
}

bool Continues(char c) { return (c & 0xc0) == 0x80; }  // a continuation byte of UTF-8

// Cuts `text` to at most so many characters, with an ellipsis as the last one if it is cut.
std::string Cut(const std::string& text, size_t characters) {
  size_t count = 0, last = 0;  // offset of the last character that fits
  for (size_t i = 0; i < text.size(); ++i) {
    if (Continues(text[i])) continue;
    if (++count == characters) last = i;
    if (count > characters) return text.substr(0, last) + "…";
  }
  return text;
}

}  // namespace

bool IsTerminal(v1::Video::State state) {
  return state == v1::Video::COMPLETED || state == v1::Video::FAILED || state == v1::Video::CANCELLED;
}

v1::Generation MadeOf(const v1::Video& video) {
  v1::Generation made = video.effective();
  made.set_num_frames(FramesOf(video));
  return made;
}

std::string FormatReached(const v1::Progress& progress) {
  if (progress.total_steps() == 0) return progress.stage();
  return absl::StrCat(progress.stage(), " ", progress.step(), "/", progress.total_steps());
}

std::string FormatResumed(const v1::Resolved& resolved) {
  if (!resolved.resumed_from_stage().empty()) {
    return absl::StrCat("resumed from step ", resolved.resumed_from_step(), " of ", resolved.resumed_from_stage());
  }
  if (resolved.not_resumed_because().empty()) return "";
  return absl::StrCat("began anew: ", Printable(resolved.not_resumed_because(), /*keep_lines=*/false));
}

std::string Printable(absl::string_view text, bool keep_lines) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool c1 = c == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;  // U+0080..9F
    if (c1) ++i;
    const bool control = c1 || c < 0x20 || c == 0x7f;
    const bool kept = keep_lines && (c == '\n' || c == '\t');
    out += control && !kept ? ' ' : text[i];
  }
  return out;
}

std::string FormatVideo(const v1::Video& video, absl::Time now) {
  std::string out;
  Line(out, "id", video.id());
  Line(out, "state", FormatState(video));
  Line(out, "waits for", Printable(video.waits_for(), /*keep_lines=*/false));
  if (video.has_error()) Line(out, "error", Printable(video.error().message(), /*keep_lines=*/false));
  if (!video.progress().stage().empty() && video.state() != v1::Video::COMPLETED) {
    Line(out, "reached", FormatReached(video.progress()));
  }
  if (video.progress().has_remaining()) {
    Line(out, "left", HumanSeconds(absl::ToDoubleSeconds(FromProto(video.progress().remaining()))));
  }
  if (video.has_resume_point()) Line(out, "stored", FormatReached(video.resume_point()));
  if (video.preemptions() > 0) Line(out, "preempted", TimesText(video.preemptions()));
  Line(out, "model", video.model());
  if (video.has_effective()) GenerationLines(MadeOf(video), out);
  for (const std::string& warning : video.resolved().warnings()) {
    Line(out, "warning", Printable(warning, /*keep_lines=*/false));
  }
  if (video.estimated_seconds() > 0) Line(out, "estimated", HumanSeconds(video.estimated_seconds()));
  if (video.attempt() > 1) Line(out, "attempt", absl::StrCat(video.attempt(), AttemptText(video.resolved())));
  if (video.has_create_time()) Line(out, "created", FormatTime(video.create_time(), now));
  if (video.has_start_time()) Line(out, "started", FormatTime(video.start_time(), now));
  if (video.has_end_time()) Line(out, "ended", FormatTime(video.end_time(), now));
  if (video.has_expire_time()) Line(out, "expires", FormatTime(video.expire_time(), now));
  for (const auto& [key, value] : video.labels()) {
    Line(out, "label", Printable(absl::StrCat(key, "=", value), /*keep_lines=*/false));
  }
  UsageLines(video.usage(), out);
  for (const v1::Artifact& a : video.artifacts()) {
    Line(out, "artifact", absl::StrCat(a.id(), ", ", a.media_type(), ", ", HumanBytes(a.bytes())));
    if (!a.url().empty()) Line(out, "link", a.url());
    if (!a.url().empty()) Line(out, "until", FormatTime(a.url_expire_time(), now));
  }
  out.pop_back();
  return out;
}

std::vector<std::string> FormatVideoRows(absl::Span<const v1::Video> videos, absl::Time now, int columns) {
  std::vector<Row> rows = {Row()};
  std::copy(std::begin(kRowHeader), std::end(kRowHeader), rows[0].begin());
  for (const v1::Video& video : videos) {
    const v1::Generation g = MadeOf(video);
    const bool dated = video.has_create_time();
    rows.push_back({video.id().substr(0, kShownIdLength), FormatState(video),
                    dated ? HumanAge(absl::ToDoubleSeconds(now - FromProto(video.create_time()))) : "-",
                    FormatTaken(video, now), FormatSize(g), absl::StrCat(g.seed()),
                    Printable(g.prompt(), /*keep_lines=*/false)});
  }
  std::array<size_t, std::tuple_size_v<Row> - 1> widths{};  // all columns but the prompt
  for (const Row& row : rows) {
    for (size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::vector<std::string> lines;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < widths.size(); ++i) {
      absl::StrAppend(&line, row[i], std::string(widths[i] - row[i].size() + 2, ' '));
    }
    line += row.back();
    lines.push_back(columns > 0 ? Cut(line, static_cast<size_t>(columns)) : line);
  }
  return lines;
}

}  // namespace kinora
