// kinora-render with ranks that are processes, each with its own simulated CUDA device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/testing/subprocess.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using ::testing::HasSubstr;

class CudaRender : public testing::Test {
 protected:
  ProcessResult Render(const std::string& output, const std::vector<std::string>& how) const {
    const std::string models = std::string(KINORA_SOURCE_DIR "/models/tiny/");
    std::vector<std::string> command = {KINORA_RENDER,
                                        "--model",
                                        models + "ltx-2.3-tiny-dev.safetensors",
                                        "--model",
                                        "text_encoder=" + models + "gemma",
                                        "--prompt=a paper boat",
                                        "--width=64",
                                        "--height=64",
                                        "--frames=9",
                                        "--steps=3",
                                        "--seed=7",
                                        "--recipe=ONE_STAGE",
                                        "--device=cuda",
                                        "--quiet",
                                        "--output=" + directory_.File(output)};
    command.insert(command.end(), how.begin(), how.end());
    return RunProcess(command);
  }
  std::string Made(const std::string& output) const { return ReadFile(directory_.File(output)); }

  TemporaryDirectory directory_;
};

TEST_F(CudaRender, TokenAndGuidanceRanksMakeTheFileOfOne) {
  const ProcessResult one = Render("one.mp4", {});
  ASSERT_EQ(one.exit_status, 0) << one.err;
  for (const char* ranks : {"tokens=2", "guidance=2"}) {
    const ProcessResult several = Render("several.mp4", {"--processes", "--ranks", ranks});
    ASSERT_EQ(several.exit_status, 0) << ranks << ": " << several.err;
    EXPECT_TRUE(Made("several.mp4") == Made("one.mp4")) << ranks;  // too large to print
  }
}

TEST_F(CudaRender, RanksThatAreThreadsAreToldToBeProcesses) {
  const ProcessResult refused = Render("never.mp4", {"--ranks=tokens=2"});
  EXPECT_EQ(refused.exit_status, 2);
  EXPECT_THAT(refused.err, HasSubstr("--ranks tokens=2 on cuda: each process has one device; add --processes"));
  EXPECT_NE(access(directory_.File("never.mp4").c_str(), F_OK), 0);
}

}  // namespace
}  // namespace kinora
