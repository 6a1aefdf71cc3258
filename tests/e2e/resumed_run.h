// Jobs of a model that are interrupted and continue where they were.
#ifndef KINORA_TESTS_E2E_RESUMED_RUN_H_
#define KINORA_TESTS_E2E_RESUMED_RUN_H_

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/tiny_model.h"

namespace kinora {

class ResumedRun : public TinyModel {
 protected:
  ResumedRun() = default;
  explicit ResumedRun(std::vector<std::string> flags) : TinyModel(std::move(flags)) {}

  std::string Begin(int steps = kManySteps, const std::vector<std::string>& more = {}) {
    std::vector<std::string> flags = Flags(steps);
    flags.push_back("--seed=7");
    flags.insert(flags.end(), more.begin(), more.end());
    return server_.Create(kPrompt, flags);
  }
  // Waits until the job has done this step, or has ended.
  void AwaitStep(const std::string& id, int step) {
    nlohmann::json video;
    do {
      video = server_.Json({"get", id});
    } while ((video["state"] == "QUEUED" || video["state"] == "RUNNING") && video["progress"].value("step", 0) < step);
  }
  // Waits until the job has a resume point at this step or later.
  void AwaitPoint(const std::string& id, int step) {
    while (true) {
      const auto video = server_.Json({"get", id});
      if (video.contains("resume_point") && video["resume_point"].value("step", 0) >= step) return;
      ASSERT_TRUE(video["state"] == "QUEUED" || video["state"] == "RUNNING") << video.dump();
    }
  }
  // Waits for the end and expects that the last attempt continued an earlier one.
  nlohmann::json AwaitResumed(const std::string& id) {
    RunToEnd(server_.Client({"watch", id}));
    auto video = server_.Json({"get", id});
    EXPECT_EQ(video["state"], "COMPLETED") << video.dump();
    EXPECT_GT(video["resolved"].value("resumed_from_step", 0), 0) << video.dump();
    EXPECT_EQ(video["resolved"].value("resumed_from_stage", ""), "denoise") << video.dump();
    EXPECT_EQ(video["resolved"].value("not_resumed_because", ""), "") << video.dump();
    return video;
  }
  std::string Download(const std::string& id) {
    const std::string path = directory_.File(id + ".mp4");
    const Result result = server_.Run({"download", id, "-o", path});
    EXPECT_EQ(result.status, 0) << result.err;
    return ReadFile(path);
  }
};

}  // namespace kinora

#endif  // KINORA_TESTS_E2E_RESUMED_RUN_H_
