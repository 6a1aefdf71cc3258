// Jobs for tests of the gateway's answers.
#ifndef KINORA_TESTS_SERVER_GATEWAY_VIDEO_FIXTURES_H_
#define KINORA_TESTS_SERVER_GATEWAY_VIDEO_FIXTURES_H_

#include "kinora/v1/video_generation.pb.h"

namespace kinora {

inline v1::Video QueuedVideo() {
  v1::Video video;
  video.set_id("job-1");
  video.set_state(v1::Video::QUEUED);
  video.set_model("ltx");
  video.set_queue_position(2);
  video.mutable_create_time()->set_seconds(1700000000);
  (*video.mutable_labels())["user"] = "me";
  v1::Generation& effective = *video.mutable_effective();
  effective.set_prompt("a fox");
  effective.set_width(768);
  effective.set_height(512);
  effective.set_num_frames(97);
  effective.set_frame_rate(24);
  effective.set_seed(7);
  effective.set_recipe(v1::Generation::DISTILLED);
  return video;
}

inline v1::Video CompletedVideo() {
  v1::Video video = QueuedVideo();
  video.set_state(v1::Video::COMPLETED);
  video.set_queue_position(0);
  video.mutable_end_time()->set_seconds(1700000060);
  video.mutable_expire_time()->set_seconds(1700600000);
  v1::Artifact& trace = *video.add_artifacts();
  trace.set_id("trace");
  trace.set_media_type("application/json");
  v1::Artifact& clip = *video.add_artifacts();
  clip.set_id("clip");
  clip.set_media_type("video/mp4");
  clip.set_file_name("clip.mp4");
  video.mutable_usage()->set_device_seconds(41.5);
  video.mutable_usage()->set_peak_device_bytes(2'000'000'000);
  (*video.mutable_usage()->mutable_stage_seconds())["denoise"] = 40;
  return video;
}

}  // namespace kinora

#endif  // KINORA_TESTS_SERVER_GATEWAY_VIDEO_FIXTURES_H_
