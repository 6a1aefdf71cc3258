// Every part of what shapes a clip is in its fingerprint, and a difference is named.
#include "server/worker/run_fingerprint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "absl/strings/str_cat.h"
#include "engine/base/cpu_path.h"
#include "server/common/build_version.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

class RunFingerprintTest : public testing::Test {
 protected:
  RunFingerprintTest() {
    (*ready_.mutable_model()->mutable_digests())["ltx.safetensors"] = "sha256:01";
    ready_.set_precision("bf16");
    run_.generation.set_prompt("a boat");
    run_.generation.set_seed(7);
    StagePlan denoise{.kind = StageKind::kDenoise, .steps = 3};
    denoise.loras = {{.id = "sepia", .strength = 0.5}, {.id = "distilled", .strength = 0.5}};
    run_.plan.stages = {denoise};
    run_.plan.tiles.grid = {.frames = 2, .height = 2, .width = 2};
    run_.plan.tiles.time.resize(1);
    run_.plan.tiles.height.resize(1);
    run_.plan.tiles.width.resize(1);
  }
  RunFingerprint Fingerprint() const {
    return FingerprintOf(run_, {.ready = ready_, .full_distilled_strength = full_, .machine = machine_});
  }
  // What a run that was stored before `change` says after it.
  std::string After(const std::function<void()>& change) {
    const RunFingerprint then = Fingerprint();
    change();
    return WhatChanged(then, Fingerprint());
  }

  v1::Ready ready_;
  double full_ = 1;
  std::string machine_ = "cpu (AVX2)";
  PreparedRun run_;
};

TEST_F(RunFingerprintTest, OfTheSameRunIsEqual) {
  EXPECT_EQ(After([] {}), "");
  EXPECT_EQ(Fingerprint(), Fingerprint());
  EXPECT_THAT(Fingerprint()["build"], HasSubstr(ThisBuild().commit));
}

TEST_F(RunFingerprintTest, NamesThePartThatChanged) {
  EXPECT_EQ(After([&] { ready_.set_mesh("tokens=2"); }), "the mesh was none and is tokens=2 now");
  EXPECT_EQ(After([&] { ready_.clear_mesh(); }), "the mesh was tokens=2 and is none now");
  EXPECT_EQ(After([&] { ready_.set_precision("f32"); }), "the precision was bf16 and is f32 now");
  EXPECT_EQ(After([&] { machine_ = "cpu (SSE2)"; }), "the device was cpu (AVX2) and is cpu (SSE2) now");
  EXPECT_EQ(After([&] { (*ready_.mutable_model()->mutable_digests())["ltx.safetensors"] = "sha256:02"; }),
            "the file ltx.safetensors was sha256:01 and is sha256:02 now");
  EXPECT_EQ(After([&] { (*ready_.mutable_model()->mutable_digests())["up.safetensors"] = "sha256:03"; }),
            "the file up.safetensors was none and is sha256:03 now");
  EXPECT_EQ(After([&] { run_.plan.stages[0].loras[0].strength = 0.75; }),
            "the LoRA sepia of denoise was at strength 0.5 and is at strength 0.75 now");
  EXPECT_EQ(After([&] { full_ = 0.5; }),
            "the LoRA distilled of denoise was at strength 0.5 and is at strength 0.25 now");
  EXPECT_EQ(After([&] {
              run_.plan.tiles.tiling.frames = {.size = 80, .overlap = 24};
              run_.plan.tiles.time.resize(2);
            }),
            "the tile plan was untiled and is frames=80/24,height=64,width=64 now");
  for (const auto& change : std::vector<std::function<void()>>{[&] { run_.generation.set_seed(8); },
                                                               [&] { run_.generation.add_sigmas(0.5); },
                                                               [&] { run_.generation.add_conditions(); }}) {
    EXPECT_THAT(After(change), testing::StartsWith("the request was sha256:"));
  }
}

TEST_F(RunFingerprintTest, LeavesOutLorasThatTheRequestDoesNotUse) {
  EXPECT_EQ(After([&] { (*ready_.mutable_model()->mutable_digests())["lora/other"] = "sha256:04"; }), "");
}

// A LoRA whose file has changed is named as such, not as another request.
TEST_F(RunFingerprintTest, LeavesTheDigestsOfLorasOutOfTheRequest) {
  run_.generation.add_loras()->set_id("sepia");
  EXPECT_EQ(After([&] { run_.generation.mutable_loras(0)->set_digest("sha256:06"); }), "");
  EXPECT_THAT(After([&] { run_.generation.mutable_loras(0)->set_strength(0.5); }), HasSubstr("the request was "));
}

TEST_F(RunFingerprintTest, NamesThreePartsOfMany) {
  const std::string all = After([&] {
    for (int i = 0; i < 5; ++i) (*ready_.mutable_model()->mutable_digests())[absl::StrCat(i)] = "sha256:05";
  });
  EXPECT_EQ(
      all,
      "the file 0 was none and is sha256:05 now; the file 1 was none and is sha256:05 now; the file 2 was none and "
      "is sha256:05 now; and 2 more");
}

TEST(Machines, OfACpuAreItsInstructionSet) {
  EXPECT_THAT(MachineOf("cpu", {}), IsOkAndHolds(absl::StrCat("cpu (", CpuPathName(ThisCpuPath()), ")")));
  EXPECT_FALSE(MachineOf("abacus", {}).ok());
}

TEST(Machines, OfRanksAreOneTextWhileTheyAreEqual) {
  EXPECT_EQ(JoinMachines({"cpu (AVX2)", "cpu (AVX2)"}), "cpu (AVX2)");
  EXPECT_EQ(JoinMachines({"cpu (AVX2)", "cpu (SSE2)"}), "cpu (AVX2), cpu (SSE2)");
}

}  // namespace
}  // namespace kinora
