#include "server/gateway/error_body.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "server/common/status_details.h"
#include "server/gateway/create_fields.h"
#include "tests/server/gateway/video_fixtures.h"

namespace kinora {
namespace {

using Json = nlohmann::ordered_json;
using testing::Contains;
using testing::Pair;

int StatusOf(const absl::Status& status) { return ToHttpError(status).status; }

TEST(ErrorBodyTest, BothFormsCarryTheMessage) {
  const HttpError error = ToHttpError(WithRetryInfo(
      WithErrorInfo(absl::ResourceExhaustedError("the queue is full"), "QUEUE_FULL"), absl::Milliseconds(9500)));
  EXPECT_EQ(error.status, 429);
  EXPECT_EQ(error.body,
            R"({"error":{"message":"the queue is full","type":"rate_limit_error","param":null,"code":"queue_full",)"
            R"("fields":[]},"detail":"the queue is full"})");
  EXPECT_THAT(error.headers, Contains(Pair("Retry-After", "10"))) << "whole seconds, not fewer than asked for";
}

TEST(ErrorBodyTest, WrongFieldsHaveTheirNamesInHttp) {
  const HttpError error = ToHttpError(
      InvalidFields({{"generation.frame_rate", "too high"}, {"generation.video_guidance.stg_blocks[0]", "is 99"}}));
  EXPECT_EQ(error.status, 422);
  const Json body = Json::parse(error.body);
  EXPECT_EQ(body["error"]["param"], "fps");
  EXPECT_EQ(body["detail"], "fps: too high; video_stg_blocks[0]: is 99");
  EXPECT_EQ(body["error"]["message"], body["detail"]);
  EXPECT_EQ(body["error"]["fields"][1]["field"], "video_stg_blocks[0]");
  EXPECT_EQ(body["error"]["fields"][1]["message"], "is 99");
  EXPECT_EQ(body["error"]["type"], "invalid_request_error");
  EXPECT_EQ(body["error"]["code"], "invalid_argument");
}

TEST(ErrorBodyTest, PathsInMessagesWithoutDetailsAreRenamedToo) {
  const Json body = Json::parse(ToHttpError(NotAvailableYet("generation.frame_rate")).body);
  EXPECT_EQ(body["error"]["message"], "fps: not available yet");
  EXPECT_EQ(body["error"]["param"], "fps");
  EXPECT_EQ(Json::parse(ToHttpError(absl::InternalError("/a/b.db: broken")).body)["detail"], "b.db: broken");
}

TEST(ErrorBodyTest, StatusesFollowTheTable) {
  EXPECT_EQ(StatusOf(absl::InvalidArgumentError("")), 422);
  EXPECT_EQ(StatusOf(WithErrorInfo(absl::InvalidArgumentError(""), "SHAPE_TOO_LARGE")), 422);
  EXPECT_EQ(StatusOf(WithErrorInfo(absl::InvalidArgumentError(""), kMalformedBody)), 400);
  EXPECT_EQ(StatusOf(WithErrorInfo(absl::InvalidArgumentError(""), kBodyTooLarge)), 413);
  EXPECT_EQ(StatusOf(absl::UnauthenticatedError("")), 401);
  EXPECT_EQ(StatusOf(absl::PermissionDeniedError("")), 403);
  EXPECT_EQ(StatusOf(absl::NotFoundError("")), 404);
  EXPECT_EQ(StatusOf(WithErrorInfo(absl::NotFoundError(""), "EXPIRED")), 410);
  EXPECT_EQ(StatusOf(absl::AlreadyExistsError("")), 409);
  EXPECT_EQ(StatusOf(absl::FailedPreconditionError("")), 409);
  EXPECT_EQ(StatusOf(WithErrorInfo(absl::FailedPreconditionError(""), "MODEL_NOT_LOADED")), 404);
  EXPECT_EQ(StatusOf(absl::AbortedError("")), 409);
  EXPECT_EQ(StatusOf(WithErrorInfo(absl::AbortedError(""), "WORKER_GROUP_LOST")), 500);
  EXPECT_EQ(StatusOf(absl::ResourceExhaustedError("")), 429);
  EXPECT_EQ(StatusOf(WithErrorInfo(absl::ResourceExhaustedError(""), "DISK_FULL")), 507);
  EXPECT_EQ(StatusOf(absl::ResourceExhaustedError("Received message larger than max (5 vs. 4)")), 413);
  EXPECT_EQ(StatusOf(WithErrorInfo(absl::UnavailableError(""), "DRAINING")), 503);
  EXPECT_EQ(StatusOf(absl::UnimplementedError("")), 501);
  EXPECT_EQ(StatusOf(absl::DeadlineExceededError("")), 504);
  EXPECT_EQ(StatusOf(absl::CancelledError("")), 499);
  EXPECT_EQ(StatusOf(absl::DataLossError("")), 500);
  EXPECT_EQ(StatusOf(absl::UnknownError("")), 500);
}

TEST(ErrorBodyTest, AMissingTokenIsAskedFor) {
  EXPECT_THAT(ToHttpError(absl::UnauthenticatedError("")).headers, Contains(Pair("WWW-Authenticate", "Bearer")));
  EXPECT_THAT(MakeHttpError(401, "unauthenticated", "").headers, Contains(Pair("WWW-Authenticate", "Bearer")));
}

TEST(ErrorBodyTest, ErrorsOfHttpHaveTheSameForm) {
  const HttpError error = MakeHttpError(415, "unsupported_media_type", "send JSON", "Content-Type");
  const Json body = Json::parse(error.body);
  EXPECT_EQ(body["error"]["param"], "Content-Type");
  EXPECT_EQ(body["error"]["fields"].size(), 1u);
  EXPECT_EQ(body["detail"], "send JSON");
}

TEST(ErrorBodyTest, PathsOfTheApiBecomeFields) {
  const std::pair<const char*, const char*> paths[] = {
      {"generation.width", "width"},
      {"generation.frame_rate", "fps"},
      {"generation.num_frames", "num_frames"},
      {"generation.sigmas[2]", "sigmas[2]"},
      {"generation.video_guidance", "guidance_scale"},
      {"generation.audio_guidance", "audio_cfg_scale"},
      {"generation.video_guidance.rescale", "video_rescale_scale"},
      {"generation.audio_guidance.skip_step", "audio_skip_step"},
      {"generation.conditions[1].image.input_id", "conditions[1].image"},
      {"generation.conditions[1].strength", "conditions[1].strength"},
      {"generation.loras[0].strength_stage2", "lora[0].strength_stage2"},
      {"generation.audio.media.input_id", "audio_reference"},
      {"generation.audio.start_seconds", "audio_reference.start_seconds"},
      {"generation.audio_only", "audio_only"},
      {"generation.retake.clip.input_id", "retake.clip"},
      {"generation.retake.end_seconds", "retake.end_seconds"},
      {"output.crf", "output_crf"},
      {"output.ttl", "ttl_seconds"},
      {"output.container", "container"},
      {"scheduling.priority", "priority"},
      {"scheduling.deadline", "deadline_seconds"},
      {"request_id", "request_id"}};
  for (const auto& [path, field] : paths) EXPECT_EQ(FieldOfPath(path), field);
}

TEST(ChooseContentTest, AClipThatIsNotReadyIsNotFoundYet) {
  v1::Video video = QueuedVideo();
  const auto error = [&video](std::string_view variant = "") {
    return std::get<HttpError>(ChooseContent(video, variant));
  };
  EXPECT_EQ(error().status, 404);
  EXPECT_THAT(error().headers, Contains(Pair("Retry-After", "2")));
  video.set_state(v1::Video::RUNNING);
  video.mutable_progress()->mutable_remaining()->set_seconds(1000);
  EXPECT_EQ(Json::parse(error().body)["detail"], "Generation is still in-progress");
  EXPECT_THAT(error().headers, Contains(Pair("Retry-After", "30")));
  video.set_state(v1::Video::CANCELLED);
  EXPECT_EQ(error().status, 422);
  video.set_state(v1::Video::FAILED);
  video.mutable_error()->set_message("no memory");
  EXPECT_EQ(Json::parse(error().body)["detail"], "The job failed: no memory");
  EXPECT_EQ(error("sprite").status, 422) << "an unknown variant";
}

TEST(ChooseContentTest, EveryVariantHasItsArtifact) {
  v1::Video video = CompletedVideo();
  EXPECT_EQ(std::get<int>(ChooseContent(video, "")), 1);
  EXPECT_EQ(std::get<int>(ChooseContent(video, "video")), 1);
  EXPECT_EQ(std::get<int>(ChooseContent(video, "trace")), 0);
  EXPECT_EQ(std::get<HttpError>(ChooseContent(video, "thumbnail")).status, 404);
  EXPECT_EQ(std::get<HttpError>(ChooseContent(video, "spritesheet")).status, 404);
  video.add_artifacts()->set_media_type("image/jpeg");
  EXPECT_EQ(std::get<int>(ChooseContent(video, "thumbnail")), 2);
  video.clear_artifacts();
  EXPECT_EQ(std::get<HttpError>(ChooseContent(video, "")).status, 410);
}

}  // namespace
}  // namespace kinora
