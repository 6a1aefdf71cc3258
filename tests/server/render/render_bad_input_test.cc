// Invalid or malicious input makes kinora-render exit with status 2 and one line that names the problem, without a
// crash, a hang or a gigabyte of memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/testing/subprocess.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using ::testing::HasSubstr;
using Arguments = std::vector<std::string>;

const std::string kModel = KINORA_SOURCE_DIR "/models/tiny/ltx-2.3-tiny-dev.safetensors";
const std::string kText = "text_encoder=" KINORA_SOURCE_DIR "/models/tiny/gemma";

class RenderBadInput : public testing::Test {
 protected:
  ProcessResult Render(const Arguments& more, const std::string& model = kModel) const {
    Arguments command = {KINORA_RENDER, "--model", model, "--model",  kText,      "--model",  "kind=dev", "--prompt",
                         "a",           "--width", "64",  "--height", "64",       "--frames", "9",        "--recipe",
                         "ONE_STAGE",   "--seed",  "7",   "--quiet",  "--output", output()};
    command.insert(command.end(), more.begin(), more.end());
    return RunProcess(command);
  }
  void ExpectRefused(const ProcessResult& result, const std::string& words) const {
    EXPECT_EQ(result.exit_status, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(words));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_NE(access(output().c_str(), F_OK), 0);
  }
  std::string output() const { return directory_.File("never.mp4"); }

  TemporaryDirectory directory_;
};

TEST_F(RenderBadInput, AFileWithoutAnEndIsReadToItsLimitOnly) {
  ExpectRefused(Render({"--request", "/dev/zero"}), "--request /dev/zero: more than 4194304 bytes");
  ExpectRefused(Render({"--request", directory_.path()}), "cannot be read");
}

TEST_F(RenderBadInput, ANamedPipeInPlaceOfAModelDoesNotHoldTheProgram) {
  const std::string pipe = directory_.File("model.safetensors");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  ExpectRefused(Render({"--steps", "1"}, pipe), "model.safetensors: not a regular file");
}

TEST_F(RenderBadInput, AModelThatIsCutAnywhereIsNamed) {
  const std::string whole = ReadFile(kModel), cut = directory_.File("cut.safetensors");
  for (const size_t bytes : {size_t{0}, size_t{7}, size_t{8}, whole.size() / 20, whole.size() - 1}) {
    WriteFile(cut, whole.substr(0, bytes));
    ExpectRefused(Render({"--steps", "1"}, cut), "cut.safetensors");
  }
}

TEST_F(RenderBadInput, NumbersThatOverflowTheLatentsAreRefused) {
  ExpectRefused(Render({"--video-guidance", R"({"cfgScale": -1e308})"}), "video_guidance.cfg_scale: -1e+308");
  ExpectRefused(Render({"--audio-guidance", R"({"stgScale": 1001})"}), "audio_guidance.stg_scale: 1001");
  ExpectRefused(Render({"--video-guidance", R"({"modalityScale": "Infinity"})"}), "video_guidance.modality_scale");
}

TEST_F(RenderBadInput, AShiftBeyondFloat32NamesTheField) {
  for (const char* tokens : {"100000", "2147483647"}) {
    ExpectRefused(Render({"--steps", "4", "--schedule-tokens", tokens}), "schedule_tokens: ");
  }
}

TEST_F(RenderBadInput, OneStepHasALevelWhateverTheShift) {
  const ProcessResult result = Render({"--steps", "1", "--schedule-tokens", "1024"});
  EXPECT_EQ(result.exit_status, 0) << result.err;
}

// ulimit -v simulates lack of memory at every point of the start.
TEST_F(RenderBadInput, MemoryThatCannotBeHadEndsInOneLineThatSaysWhatFor) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own memory does not fit";
#endif
  for (int megabytes = 200; megabytes <= 750; megabytes += 50) {
    Arguments command = {"/bin/sh", "-c", "ulimit -v " + std::to_string(megabytes << 10) + "; exec \"$0\" \"$@\"",
                         KINORA_RENDER};
    command.insert(command.end(), {"--model", kModel,     "--model",  kText,       "--model", "kind=dev", "--prompt",
                                   "a",       "--frames", "97",       "--width",   "512",     "--height", "512",
                                   "--steps", "1",        "--recipe", "ONE_STAGE", "--seed",  "7",        "--threads",
                                   "4",       "--quiet",  "--output", output()});
    const ProcessResult result = RunProcess(command);
    EXPECT_EQ(result.exit_status, 1) << megabytes << ": " << result.err;
    EXPECT_THAT(result.err, testing::AnyOf(HasSubstr("bytes of memory"), HasSubstr("RESOURCE_EXHAUSTED"))) << megabytes;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

TEST_F(RenderBadInput, AFolderInPlaceOfAFileIsFoundBeforeTheWork) {
  ExpectRefused(Render({"--dump", directory_.path()}), "--dump");
  ExpectRefused(Render({"--trace", directory_.path()}), "--trace");
}

}  // namespace
}  // namespace kinora
