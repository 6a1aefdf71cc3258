#include "server/client/job_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "engine/request/stage.h"
#include "server/common/timestamps.h"

namespace kinora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

v1::Video Job(v1::Video::State state) {
  v1::Video video;
  video.set_id("0123456789abcdef0123456789abcdef");
  video.set_state(state);
  v1::Generation& g = *video.mutable_effective();
  g.set_prompt("a red circle\nmoves right");
  g.set_width(128);
  g.set_height(64);
  g.set_num_frames(25);
  g.set_frame_rate(24);
  g.set_seed(901932739);
  g.set_recipe(v1::Generation::ONE_STAGE);
  g.set_num_inference_steps(8);
  *video.mutable_create_time() = ToProto(kNow - absl::Minutes(5));
  return video;
}

v1::Video Ended() {
  v1::Video video = Job(v1::Video::COMPLETED);
  *video.mutable_start_time() = ToProto(kNow - absl::Seconds(100));
  *video.mutable_end_time() = ToProto(kNow - absl::Seconds(97.1));
  return video;
}

std::string RowOf(const v1::Video& video, int columns) { return FormatVideoRows({video}, kNow, columns)[1]; }

TEST(VideoRow, StandsBelowItsHeaderInColumnsAsWideAsThePageNeeds) {
  EXPECT_THAT(FormatVideoRows({Ended()}, kNow, 0),
              ElementsAre("ID        STATE      AGE    SECONDS  SIZE       SEED       PROMPT",
                          "01234567  COMPLETED  5 min  2.9 s    128x64x25  901932739  a red circle moves right"));
  v1::Video waits = Job(v1::Video::QUEUED);
  waits.set_queue_position(12345);
  EXPECT_THAT(FormatVideoRows({Ended(), waits}, kNow, 0),
              ElementsAre("ID        STATE          AGE    SECONDS  SIZE       SEED       PROMPT",
                          "01234567  COMPLETED      5 min  2.9 s    128x64x25  901932739  a red circle moves right",
                          "01234567  QUEUED #12345  5 min  -        128x64x25  901932739  a red circle moves right"));
}

TEST(VideoRow, ShowsHowMuchOfAWaitingJobIsDone) {
  v1::Video waits = Job(v1::Video::QUEUED);
  waits.set_queue_position(2);
  waits.mutable_resume_point()->set_fraction(0.375);
  EXPECT_THAT(RowOf(waits, 0), HasSubstr("QUEUED #2, 38% done  5 min"));
}

TEST(VideoText, SaysWhereAJobWouldContinueAndWhereItHas) {
  v1::Video video = Job(v1::Video::RUNNING);
  EXPECT_THAT(FormatVideo(video, kNow), Not(HasSubstr("stored")));
  video.mutable_resume_point()->set_stage("denoise_1");
  video.mutable_resume_point()->set_step(12);
  video.mutable_resume_point()->set_total_steps(30);
  video.set_attempt(2);
  video.set_preemptions(1);
  video.mutable_resolved()->set_resumed_from_stage("denoise_1");
  video.mutable_resolved()->set_resumed_from_step(8);
  const std::string text = FormatVideo(video, kNow);
  for (const char* line : {"denoise_1 12/30\n", "once\n", "2, resumed from step 8 of denoise_1\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  video.mutable_resolved()->Clear();
  video.mutable_resolved()->set_not_resumed_because("the model's\nfiles have changed");
  EXPECT_THAT(FormatVideo(video, kNow), HasSubstr("2, began anew: the model's files have changed\n"));
}

TEST(VideoRow, ShowsHowFarARunIsAndWhereAJobWaits) {
  v1::Video video = Job(v1::Video::RUNNING);
  *video.mutable_start_time() = ToProto(kNow - absl::Seconds(64 * 60));
  video.mutable_progress()->set_fraction(0.454);
  EXPECT_THAT(RowOf(video, 0), HasSubstr("  RUNNING 45%  5 min  1 h 04 min  128x64x25"));
  video = Job(v1::Video::QUEUED);
  video.set_queue_position(3);
  EXPECT_THAT(RowOf(video, 0), HasSubstr("  QUEUED #3  5 min  -        128x64x25"));
}

TEST(VideoRow, ShowsWhatAJobThatWaitsIsEstimatedToTake) {
  v1::Video video = Job(v1::Video::QUEUED);
  video.set_estimated_seconds(66 * 86400);
  EXPECT_THAT(RowOf(video, 0), HasSubstr("  QUEUED  5 min  ~66 d    128x64x25"));
  EXPECT_THAT(FormatVideo(video, kNow), HasSubstr("estimated  66 d\n"));
}

TEST(VideoRow, IsCutToTheTerminalByCharactersNotBytes) {
  v1::Video video = Ended();
  const size_t before = RowOf(video, 0).find("a red");
  video.mutable_effective()->set_prompt("ÄÖÜäöüß");
  const int columns = static_cast<int>(before) + 4;
  EXPECT_EQ(RowOf(video, columns).substr(before), "ÄÖÜ…");
  EXPECT_EQ(RowOf(video, columns + 3).substr(before), "ÄÖÜäöüß");  // just fits
}

// A prompt is untrusted text: it must not move the cursor or set a title.
TEST(VideoRow, GivesATerminalNothingToObey) {
  v1::Video video = Ended();
  video.mutable_effective()->set_prompt(
      "a\033]0;owned\007b\u009bc\x7f"
      "d\r\ne\u00a0f");
  EXPECT_THAT(RowOf(video, 0), HasSubstr("a ]0;owned b c d  e\u00a0f"));
  EXPECT_THAT(FormatVideo(video, kNow), Not(HasSubstr("\033")));
  EXPECT_THAT(FormatVideo(video, kNow), HasSubstr("d \n           e"));
}

TEST(WholeVideo, SaysWhatWasAskedForAndWhatItTook) {
  v1::Video video = Ended();
  video.mutable_effective()->set_negative_prompt("blurry");
  v1::Guidance& guidance = *video.mutable_effective()->mutable_video_guidance();
  guidance.set_cfg_scale(3);
  guidance.set_stg_scale(1);
  guidance.add_stg_blocks(29);
  guidance.set_modality_scale(1);
  guidance.set_rescale(0.7);
  v1::Usage& usage = *video.mutable_usage();
  usage.set_device_seconds(2.75);
  usage.set_peak_device_bytes(int64_t{700} << 20);
  usage.set_planned_device_bytes(int64_t{2} << 30);
  for (const auto& [stage, seconds] :
       {std::pair{"finalize", 0.01}, {"decode_video", 0.9}, {"denoise", 1.7}, {"encode", 0.1}}) {
    (*usage.mutable_stage_seconds())[stage] = seconds;
  }
  const std::string text = FormatVideo(video, kNow);
  for (const char* line :
       {"prompt     a red circle\n           moves right\n", "negative   blurry\n",
        "clip       128x64, 25 frames at 24 fps, 1.04 s\n", "recipe     ONE_STAGE, 8 steps\n", "seed       901932739\n",
        "guidance   video: cfg 3, stg 1 in blocks 29, rescale 0.7\n           audio: off\n", "computed   2.8 s\n",
        "stages     encode 0.1 s, denoise 1.7 s, decode_video 0.9 s, finalize 0.01 s\n",
        "memory     measured 0.68 GiB, planned 2.00 GiB", " (5 min ago)\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(WholeVideo, HasItsStagesInTheOrderOfARun) {
  v1::Video video;
  std::string expected = "stages     ";
  for (const StageRow& row : kStages) {
    (*video.mutable_usage()->mutable_stage_seconds())[std::string(row.name)] = 1;
    absl::StrAppend(&expected, std::string(row.name), " 1.0 s, ");
  }
  (*video.mutable_usage()->mutable_stage_seconds())["a_later_version"] = 1;  // at the end
  EXPECT_THAT(FormatVideo(video, kNow), HasSubstr(expected + "a_later_version 1.0 s"));
}

TEST(WholeVideo, SaysWhatDeterminesALengthThatIsNotKnownYet) {
  v1::Video video = Job(v1::Video::QUEUED);
  video.mutable_effective()->set_num_frames(0);
  video.mutable_effective()->mutable_audio();
  EXPECT_THAT(FormatVideo(video, kNow), HasSubstr("128x64, as long as the given sound at 24 fps\n"));
  video.mutable_effective()->clear_audio();
  video.mutable_effective()->mutable_auto_length()->set_min_seconds(1);
  video.mutable_effective()->mutable_auto_length()->set_max_seconds(2.5);
  EXPECT_THAT(FormatVideo(video, kNow), HasSubstr("128x64, 1 to 2.5 s as the model chooses at 24 fps\n"));
  EXPECT_THAT(RowOf(video, 200), HasSubstr("128x64x?"));
  video.mutable_resolved()->set_num_frames(49);
  EXPECT_THAT(FormatVideo(video, kNow), HasSubstr("128x64, 49 frames at 24 fps, 2.04 s\n"));
}

// The length of a request for a given sound is not known in advance.
TEST(WholeVideo, IsAsLongAsItsStagesWere) {
  v1::Video video;
  video.mutable_effective()->set_frame_rate(24);
  EXPECT_EQ(MadeOf(video).num_frames(), 0);
  video.mutable_resolved()->add_stages()->set_num_frames(13);
  video.mutable_resolved()->add_stages()->set_num_frames(25);
  EXPECT_EQ(MadeOf(video).num_frames(), 25);
  EXPECT_THAT(FormatVideo(video, absl::UnixEpoch()), HasSubstr("25 frames at 24 fps, 1.04 s"));
  video.mutable_effective()->set_num_frames(9);
  EXPECT_EQ(MadeOf(video).num_frames(), 9);
}

TEST(WholeVideo, ExpiresInAsManyDaysAsItsTimeToLiveHas) {
  v1::Video video = Ended();
  *video.mutable_expire_time() = ToProto(kNow + absl::Hours(7 * 24) - absl::Seconds(2));
  EXPECT_THAT(FormatVideo(video, kNow), HasSubstr(" (in 7 d)"));
}

TEST(WholeVideo, SaysWhereAJobEndedThatWasNotCompleted) {
  v1::Video video = Job(v1::Video::CANCELLED);
  video.mutable_progress()->set_stage("denoise");
  video.mutable_progress()->set_step(3);
  video.mutable_progress()->set_total_steps(8);
  EXPECT_THAT(FormatVideo(video, kNow), HasSubstr("reached    denoise 3/8\n"));
}

}  // namespace
}  // namespace kinora
