#include "server/gateway/video_body.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "server/common/status_details.h"
#include "server/common/timestamps.h"
#include "tests/server/gateway/mapping_fixtures.h"
#include "tests/server/gateway/video_fixtures.h"

namespace kinora {
namespace {

using Json = nlohmann::ordered_json;

Json Body(const v1::Video& video) { return Json::parse(VideoBody(video)); }

TEST(VideoBodyTest, AQueuedJobHasEveryKeyAndNullForWhatItLacks) {
  v1::Video video = QueuedVideo();
  const Json body = Body(video);
  EXPECT_EQ(body["id"], "job-1");
  EXPECT_EQ(body["object"], "video");
  EXPECT_EQ(body["status"], "queued");
  EXPECT_EQ(body["progress"], 0);
  EXPECT_EQ(body["created_at"], 1700000000);
  EXPECT_EQ(body["size"], "768x512");
  EXPECT_EQ(body["seconds"], "4.042") << "a text, of what was taken: 97 frames at 24 per second";
  EXPECT_EQ(body["prompt"], "a fox");
  EXPECT_EQ(body["queue_position"], 2);
  EXPECT_EQ(body["metadata"]["user"], "me");
  for (const char* name :
       {"completed_at", "expires_at", "error", "url", "remixed_from_video_id", "file_path", "file_paths", "media_type",
        "inference_time_s", "peak_memory_mb", "progress_details", "started_at"}) {
    EXPECT_TRUE(body.contains(name) && body[name].is_null()) << name;
  }
}

TEST(VideoBodyTest, ACompletedJobNamesItsClip) {
  const Json body = Body(CompletedVideo());
  EXPECT_EQ(body["status"], "completed");
  EXPECT_EQ(body["progress"], 100);
  EXPECT_EQ(body["completed_at"], 1700000060);
  EXPECT_EQ(body["expires_at"], 1700600000);
  EXPECT_TRUE(body["url"].is_null()) << "AIPerf, for one, fails with a path";
  EXPECT_EQ(body["media_type"], "video/mp4");
  EXPECT_EQ(body["file_name"], "clip.mp4");
  EXPECT_EQ(body["inference_time_s"], 41.5);
  EXPECT_EQ(body["peak_memory_mb"], 2000);
  EXPECT_EQ(body["stage_durations"]["denoise"], 40);
  EXPECT_EQ(body["artifacts"].size(), 2u);
}

TEST(VideoBodyTest, StatesBecomeTheFourOfOpenAi) {
  const std::pair<v1::Video::State, const char*> states[] = {
      {v1::Video::QUEUED, "queued"},       {v1::Video::RUNNING, "in_progress"}, {v1::Video::FINALIZING, "in_progress"},
      {v1::Video::COMPLETED, "completed"}, {v1::Video::FAILED, "failed"},       {v1::Video::CANCELLED, "failed"}};
  ASSERT_EQ(std::size(states) + 1, static_cast<size_t>(v1::Video::State_ARRAYSIZE)) << "and STATE_UNSPECIFIED";
  for (const auto& [state, status] : states) EXPECT_EQ(VideoStatus(state), status);
}

TEST(VideoBodyTest, ClientsAreToldWhenToAskAgain) {
  v1::Video video = QueuedVideo();
  EXPECT_EQ(PollMilliseconds(video), "1000");
  video.set_state(v1::Video::RUNNING);
  for (const auto& [milliseconds, told] : {std::pair(0, "250"), {1700, "1700"}, {60'000, "5000"}}) {
    *video.mutable_progress()->mutable_remaining() = ToProto(absl::Milliseconds(milliseconds));
    EXPECT_EQ(PollMilliseconds(video), told);
  }
  for (const auto state : {v1::Video::COMPLETED, v1::Video::FAILED, v1::Video::CANCELLED}) {
    video.set_state(state);
    EXPECT_EQ(PollMilliseconds(video), "");
  }
}

TEST(VideoBodyTest, ProgressIsPercent) {
  v1::Video video = QueuedVideo();
  video.set_state(v1::Video::RUNNING);
  video.mutable_progress()->set_fraction(0.419);
  video.mutable_progress()->mutable_remaining()->set_seconds(12);
  const Json body = Body(video);
  EXPECT_EQ(body["progress"], 41);
  EXPECT_TRUE(body["progress"].is_number_integer());
  EXPECT_EQ(body["progress_details"]["remaining_seconds"], 12);
}

TEST(VideoBodyTest, SaysWhereAJobContinues) {
  v1::Video video = QueuedVideo();
  for (const char* name : {"resume_point", "resumed_from", "not_resumed_because"}) {
    EXPECT_TRUE(Body(video)[name].is_null()) << name;
  }
  video.set_preemptions(2);
  video.mutable_resume_point()->set_stage("denoise_1");
  video.mutable_resume_point()->set_step(12);
  video.mutable_resolved()->set_resumed_from_stage("denoise_2");
  video.mutable_resolved()->set_resumed_from_step(3);
  const Json body = Body(video);
  EXPECT_EQ(body["preemptions"], 2);
  EXPECT_EQ(body["resume_point"]["stage"], "denoise_1");
  EXPECT_EQ(body["resume_point"]["step"], 12);
  EXPECT_EQ(body["resumed_from"], Json({{"stage", "denoise_2"}, {"step", 3}}));
  video.mutable_resolved()->set_not_resumed_because("another build");
  EXPECT_EQ(Body(video)["not_resumed_because"], "another build");
}

TEST(VideoBodyTest, FailuresAndCancellationsHaveCodes) {
  v1::Video video = QueuedVideo();
  video.set_state(v1::Video::CANCELLED);
  EXPECT_EQ(Body(video)["error"]["code"], "cancelled");
  video.set_state(v1::Video::FAILED);
  *video.mutable_error() =
      ToRpcStatus(WithErrorInfo(InvalidField("generation.frame_rate", "too high"), "SHAPE_TOO_LARGE"));
  EXPECT_EQ(Body(video)["error"]["code"], "shape_too_large");
  EXPECT_EQ(Body(video)["error"]["message"], "fps: too high") << "with the name of the field in HTTP";
  *video.mutable_error() = ToRpcStatus(absl::InternalError("/srv/models/a.safetensors: cannot be read"));
  EXPECT_EQ(Body(video)["error"]["code"], "internal");
  EXPECT_EQ(Body(video)["error"]["message"], "a.safetensors: cannot be read");
}

TEST(VideoBodyTest, SoundAloneHasNoSize) {
  v1::Video video = QueuedVideo();
  video.mutable_effective()->set_audio_only(true);
  EXPECT_TRUE(Body(video)["size"].is_null());
  EXPECT_EQ(Body(video)["seconds"], "4.042");
  video.mutable_effective()->set_num_frames(96);
  EXPECT_EQ(Body(video)["seconds"], "4");
}

TEST(VideoBodyTest, SeedsThatJavaScriptCannotHoldAreText) {
  v1::Video video = QueuedVideo();
  video.mutable_effective()->set_seed(uint64_t{1} << 53);
  EXPECT_EQ(Body(video)["seed"], uint64_t{1} << 53);
  video.mutable_effective()->set_seed(UINT64_MAX);
  EXPECT_EQ(Body(video)["seed"], "18446744073709551615");
  EXPECT_EQ(Body(video)["parameters"]["seed"], "18446744073709551615");
}

TEST(VideoBodyTest, ListsHaveTheirEnds) {
  v1::Video other = QueuedVideo();
  other.set_id("job-2");
  const Json list = Json::parse(VideoListBody(std::vector<v1::Video>{QueuedVideo(), other}, /*has_more=*/true));
  EXPECT_EQ(list["object"], "list");
  EXPECT_EQ(list["data"].size(), 2u);
  EXPECT_EQ(list["first_id"], "job-1");
  EXPECT_EQ(list["last_id"], "job-2");
  EXPECT_EQ(list["has_more"], true);
  EXPECT_EQ(VideoListBody({}, false), R"({"object":"list","data":[],"first_id":null,"last_id":null,"has_more":false})");
  EXPECT_EQ(DeletedBody("job-1"), R"({"id":"job-1","object":"video.deleted","deleted":true})");
}

TEST(VideoBodyTest, ModelsHaveLimitsAndDefaultsInTheNamesOfFields) {
  v1::ListModelsResponse models;
  *models.add_models() = DevModel();
  const Json list = Json::parse(ModelListBody(models));
  const Json& model = list["data"][0];
  EXPECT_EQ(model["id"], "ltx");
  EXPECT_EQ(model["object"], "model");
  EXPECT_TRUE(model["created"].is_number_integer());
  EXPECT_EQ(model["default_recipe"], "one_stage");
  EXPECT_EQ(model["recipes"][0]["frame_multiple"], 8);
  EXPECT_EQ(model["recipes"][0]["defaults"]["video_cfg_scale"], 3);
  EXPECT_EQ(model["recipes"][0]["defaults"]["fps"], 24);
  EXPECT_EQ(model["recipes"][1]["recipe"], "distilled");
  EXPECT_EQ(model["recipes"][1]["fixed_steps"], 8);
  EXPECT_EQ(model["modalities"], Json::parse(R"(["video", "audio"])"));
  EXPECT_EQ(Json::parse(ModelBody(DevModel())), model);
}

TEST(VideoBodyTest, AnEstimateSaysWhatWouldFit) {
  v1::Estimate estimate;
  *estimate.mutable_effective() = QueuedVideo().effective();
  estimate.set_seconds(12.5);
  estimate.set_device_bytes(5'000'000'000);
  EXPECT_TRUE(Json::parse(EstimateBody(estimate, "ltx"))["nearest"].is_null());
  estimate.mutable_nearest()->set_num_frames(49);
  estimate.add_problems("too long");
  const Json body = Json::parse(EstimateBody(estimate, "ltx"));
  EXPECT_EQ(body["estimated_seconds"], 12.5);
  EXPECT_EQ(body["fits"], false);
  EXPECT_EQ(body["nearest"]["num_frames"], 49);
  EXPECT_EQ(body["problems"][0], "too long");
  EXPECT_EQ(body["parameters"]["num_frames"], 97);
}

// The lines of an event, the last two of which are empty.
std::vector<std::string> EventLines(const v1::VideoEvent& event) { return absl::StrSplit(EventText(event), '\n'); }

TEST(EventTextTest, StoredEventsAreNumbered) {
  v1::VideoEvent event;
  event.set_video_id("job-1");
  event.set_sequence(7);
  *event.mutable_terminal() = CompletedVideo();
  const std::vector<std::string> lines = EventLines(event);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0], "id: 7");
  EXPECT_EQ(lines[1], "event: terminal");
  EXPECT_EQ(lines[2], "data: " + VideoBody(CompletedVideo())) << "one line, also if the prompt has more";
  event.mutable_state()->mutable_effective()->set_prompt("two\nlines");
  EXPECT_EQ(EventLines(event).size(), 5u);
  EXPECT_EQ(EventLines(event)[1], "event: state");
  *event.mutable_snapshot() = QueuedVideo();
  EXPECT_EQ(EventLines(event)[1], "event: snapshot");
}

TEST(EventTextTest, StepsAndPreviewsAreSmall) {
  v1::VideoEvent event;
  event.set_video_id("job-1");
  event.set_sequence(7);
  event.mutable_step()->set_step(3);
  event.mutable_step()->set_total_steps(8);
  EXPECT_EQ(EventText(event),
            "id: 7\nevent: step\ndata: {\"object\":\"video.progress\",\"id\":\"job-1\",\"stage\":null,"
            "\"step\":3,\"total_steps\":8,\"fraction\":0.0,\"remaining_seconds\":null}\n\n");
  event.mutable_stage()->set_stage("a stage");
  EXPECT_EQ(EventLines(event)[1], "event: stage");
  event.mutable_preview()->set_image("JPEG");
  event.mutable_preview()->set_media_type("image/jpeg");
  const std::vector<std::string> lines = EventLines(event);
  EXPECT_EQ(lines[0], "event: preview") << "no id: a resumed watch has nothing to skip";
  EXPECT_EQ(Json::parse(lines[1].substr(6))["image"], "data:image/jpeg;base64,SlBFRw==");
  event.mutable_heartbeat();
  EXPECT_EQ(EventText(event), ": heartbeat\n\n");
  event.clear_event();
  EXPECT_EQ(EventText(event), "");
}

}  // namespace
}  // namespace kinora
