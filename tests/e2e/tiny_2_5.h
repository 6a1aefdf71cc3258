// The committed tiny LTX-2.5, in the layout of the released files, and kinora-render's result with it.
#ifndef KINORA_TESTS_E2E_TINY_2_5_H_
#define KINORA_TESTS_E2E_TINY_2_5_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/e2e/tiny_model.h"

namespace kinora {

inline constexpr char kTiny25[] = KINORA_SOURCE_DIR "/models/tiny-2.5";
// In place of the folder's own decoder.
inline constexpr char kDiffusionDecoder[] =
    "video_vae=" KINORA_SOURCE_DIR "/models/tiny-2.5/vae/ltx-2.5-tiny-video-vae.safetensors";

// Returns the file that kinora-render writes in one process without a server.
inline std::string RenderedFrom(const TemporaryDirectory& directory, const std::vector<std::string>& flags) {
  const std::string path = directory.File("rendered.mp4");
  std::vector<std::string> render = {KINORA_RENDER_BINARY, "--model", kTiny25, "--model", "kind=distilled"};
  for (const std::string& flag :
       {std::string("--seed=7"), std::string("--precision=f32"), std::string("--threads=2"),
        absl::StrCat("--prompt=", kPrompt), absl::StrCat("--output=", path), absl::StrCat("--device=", Device())}) {
    render.push_back(flag);
  }
  render.insert(render.end(), flags.begin(), flags.end());
  const Result rendered = RunToEnd(render);
  EXPECT_EQ(rendered.status, 0) << rendered.err;
  return ReadFile(path);
}

}  // namespace kinora

#endif  // KINORA_TESTS_E2E_TINY_2_5_H_
