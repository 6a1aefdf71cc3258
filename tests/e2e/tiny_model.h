// The real worker with the committed tiny model behind a real frontend, and kinora-render's result for the same
// request.
#ifndef KINORA_TESTS_E2E_TINY_MODEL_H_
#define KINORA_TESTS_E2E_TINY_MODEL_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/e2e/server.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {

inline constexpr char kModel[] = KINORA_SOURCE_DIR "/models/tiny/ltx-2.3-tiny-dev.safetensors";
inline constexpr char kText[] = "text_encoder=" KINORA_SOURCE_DIR "/models/tiny/gemma";

// KINORA_TEST_DEVICE selects a device other than the CPU, which may be slow.
inline std::string Device() {
  const char* const device = std::getenv("KINORA_TEST_DEVICE");
  return device != nullptr ? device : "cpu";
}
// Enough steps for a test to interrupt the run.
inline const int kManySteps = Device() == "cpu" ? 200 : 12;

inline constexpr char kPrompt[] = "a red fox in fresh snow";

// Flags for `kinora` and kinora-render.
inline std::vector<std::string> ClipFlags(int steps) {
  return {"--recipe=ONE_STAGE", absl::StrCat("--steps=", steps), "--width=64", "--height=64", "--frames=9"};
}

// Flags of kinora-worker for one of two token ranks that the test itself starts.
inline std::vector<std::string> TokenRankFlags(int rank) {
  return {absl::StrCat("--rank=", rank),
          "--world-size=2",
          "--ranks=tokens=2",
          absl::StrCat("--model=", kModel),
          absl::StrCat("--model=", kText),
          "--model=kind=dev",
          "--model-id=tiny",
          "--device=cpu",
          "--precision=f32",
          "--threads=2"};
}

// Returns the file that kinora-render writes in one process without a server. `more` are additional flags.
inline std::string Rendered(const TemporaryDirectory& directory, int steps, const std::vector<std::string>& more = {}) {
  const std::string path = directory.File("rendered.mp4");
  std::vector<std::string> command = {
      KINORA_RENDER_BINARY, "--model", kModel,     "--model",         kText,         "--model",  "kind=dev",
      "--prompt",           kPrompt,   "--seed=7", "--precision=f32", "--threads=2", "--output", path};
  command.push_back(absl::StrCat("--device=", Device()));
  for (const std::string& flag : ClipFlags(steps)) command.push_back(flag);
  command.insert(command.end(), more.begin(), more.end());
  const Result result = RunToEnd(command);
  EXPECT_EQ(result.status, 0) << result.err;
  return ReadFile(path);
}

class TinyModel : public testing::Test {
 protected:
  TinyModel()
      : TinyModel({absl::StrCat("--worker-model=", kModel), absl::StrCat("--worker-model=", kText),
                   "--worker-model=kind=dev", "--worker-model-id=tiny", absl::StrCat("--worker-device=", Device()),
                   "--worker-precision=f32", "--worker-threads=2"}) {}
  // `flags` are the frontend's flags, which define its groups.
  explicit TinyModel(std::vector<std::string> flags)
      : server_(directory_, {.binary = KINORA_WORKER_BINARY, .flags = std::move(flags)}) {}

  static std::vector<std::string> Flags(int steps) { return ClipFlags(steps); }
  std::vector<std::string> Generate(const std::string& file, int steps) const {
    return server_.Generate(kPrompt, directory_.File(file), ClipFlags(steps));
  }
  std::string Rendered(int steps) const { return kinora::Rendered(directory_, steps); }

  TemporaryDirectory directory_;
  Server server_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_E2E_TINY_MODEL_H_
