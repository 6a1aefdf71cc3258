#include "server/client/repeat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kinora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

v1::Video Done() {
  v1::Video video;
  video.set_id("first");
  video.set_model("tiny");
  video.mutable_effective()->set_prompt("a kite");
  video.mutable_effective()->set_seed(7);
  video.mutable_output()->set_container(v1::Output::WEBM);
  video.mutable_output()->mutable_ttl()->set_seconds(5);
  video.mutable_output()->set_trace(true);
  video.mutable_output()->set_thumbnail(true);
  v1::Resolved& resolved = *video.mutable_resolved();
  resolved.set_build("1.0");
  resolved.set_device("cpu");
  resolved.set_precision("bf16");
  (*resolved.mutable_digests())["lora/kite"] = "sha256:aa";
  resolved.add_stages()->add_sigmas(1);
  v1::Artifact& artifact = *video.add_artifacts();
  artifact.set_id("video.webm");
  artifact.set_sha256("11");
  return video;
}

TEST(Repeat, AsksForTheSameClip) {
  const v1::CreateVideoRequest request = RequestOf(Done());
  EXPECT_EQ(request.model(), "tiny");
  EXPECT_EQ(request.generation().seed(), 7);
  EXPECT_EQ(request.output().container(), v1::Output::WEBM);
  EXPECT_FALSE(request.output().has_ttl());
  EXPECT_FALSE(request.output().trace());
  EXPECT_FALSE(request.output().thumbnail());
}

TEST(Repeat, NamesAllThatMayMakeAnotherClip) {
  const v1::Video earlier = Done();
  v1::Video now = Done();
  EXPECT_THAT(DifferencesOf(earlier, now), IsEmpty());
  v1::Resolved& resolved = *now.mutable_resolved();
  resolved.set_build("1.1");
  resolved.set_mesh("tokens=2");
  (*resolved.mutable_digests())["lora/kite"] = "sha256:bb";
  (*resolved.mutable_digests())["input/ff"] = "sha256:ff";
  resolved.mutable_stages(0)->set_sigmas(0, 0.9);
  EXPECT_THAT(DifferencesOf(earlier, now),
              ElementsAre("build 1.1 instead of 1.0", "mesh tokens=2 instead of none", "input/ff is new",
                          "lora/kite has changed", "other stages, noise levels or LoRAs"));
}

TEST(Repeat, SaysWhetherTheBytesAreTheSame) {
  const v1::Video earlier = Done();
  v1::Video now = Done();
  EXPECT_EQ(DescribeRepetition(earlier, now), "identical to the clip of job first");
  now.add_artifacts()->set_id("thumbnail.jpg");  // which the earlier job did not have
  now.add_artifacts()->set_id("trace.json");
  EXPECT_EQ(DescribeRepetition(earlier, now), "identical to the clip of job first");
  now.mutable_artifacts(0)->set_sha256("22");
  EXPECT_THAT(DescribeRepetition(earlier, now), HasSubstr("first: no recorded setting differs"));
  now.mutable_resolved()->set_device("cuda");
  EXPECT_EQ(DescribeRepetition(earlier, now), "differs from the clip of job first: device cuda instead of cpu");
  EXPECT_THAT(DescribeRepetition(v1::Video(), now), HasSubstr("no clip to compare"));
}

}  // namespace
}  // namespace kinora
