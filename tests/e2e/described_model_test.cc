// A frontend that no worker has ever joined knows a model from its description, so that the first job can start the
// first worker.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/e2e/tiny_model.h"

namespace kinora {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

constexpr int kRefused = 2;
const char kSeconds[] = "kinora_queue_seconds{model=\"scripted\"} ";

class DescribedModel : public testing::Test {
 protected:
  // Writes the output of a worker's --describe to a file and returns its path.
  std::string Describe(const std::vector<std::string>& worker) const {
    const Result result = RunToEnd(worker);
    EXPECT_EQ(result.status, 0) << result.err;
    std::string path = directory_.File("model.textproto");
    WriteFile(path, result.out);
    return path;
  }
  std::string DescribeScripted() const { return Describe({KINORA_SCRIPTED_WORKER_BINARY, "--describe"}); }

  TemporaryDirectory directory_;
  Server server_{directory_, {.binary = KINORA_SCRIPTED_WORKER_BINARY, .flags = {}}};
};

TEST_F(DescribedModel, TakesJobsThatTheFirstWorkerMakes) {
  server_.Start(/*ready=*/false, {"--model-description=" + DescribeScripted()});
  EXPECT_EQ(server_.Json({"models"})["id"], "scripted");
  EXPECT_THAT(server_.MetricsPage(), HasSubstr(absl::StrCat(kSeconds, "0\n")));
  const Result wrong = server_.Run({"create", "x", "--width=65"});
  EXPECT_EQ(wrong.status, kRefused);
  EXPECT_THAT(wrong.err, HasSubstr("generation.width"));

  const std::string first = server_.Create("one"), second = server_.Create("two");
  EXPECT_EQ(server_.Json({"get", first})["state"], "QUEUED");
  EXPECT_THAT(server_.MetricsPage(),
              AllOf(HasSubstr(absl::StrCat(kSeconds, "120\n")), HasSubstr("kinora_queue_depth{priority=\"0\"} 2\n")));

  Process worker({KINORA_SCRIPTED_WORKER_BINARY, "--group=big", "--model=scripted",
                  "--http-address=", absl::StrCat("--frontend=unix:", directory_.File("state/worker.sock"))});
  for (const std::string& id : {first, second}) {
    EXPECT_EQ(server_.Run({"watch", id}).status, 0);
    EXPECT_EQ(server_.Json({"get", id})["state"], "COMPLETED");
  }
  EXPECT_THAT(server_.MetricsPage(), HasSubstr(absl::StrCat(kSeconds, "0\n")));
}

// Past run times persist across restarts of the frontend, like the jobs.
TEST_F(DescribedModel, KnowsAfterARestartHowLongItsJobsRan) {
  const std::string description = DescribeScripted();
  server_.Start(/*ready=*/false, {"--model-description=" + description});
  {
    Process worker({KINORA_SCRIPTED_WORKER_BINARY, "--group=big", "--model=scripted",
                    "--http-address=", absl::StrCat("--frontend=unix:", directory_.File("state/worker.sock"))});
    EXPECT_EQ(server_.Run({"watch", server_.Create("x")}).status, 0);
  }
  server_.Start(/*ready=*/false, {"--model-description=" + description});
  server_.Create("x");
  const std::string page = server_.MetricsPage();
  const size_t at = page.find(kSeconds);
  ASSERT_NE(at, std::string::npos);
  const double seconds = std::atof(page.c_str() + at + std::string(kSeconds).size());
  EXPECT_GT(seconds, 0);
  EXPECT_LT(seconds, 60);
}

TEST_F(DescribedModel, ThatCannotBeReadIsRefusedAtTheStart) {
  const std::string whole = ReadFile(DescribeScripted());
  const std::pair<std::string, const char*> mistakes[] = {
      {"id: \"m\"\nfamily = 3\n", "model.textproto:2:8: "},
      {std::string("\x08\x96\x01\x12", 4), "is not a ModelInfo, in text or binary format"},
      {"", "id: must be set"},
      {"id: \"m\"", "model m: its description lacks blocks"}};
  for (const auto& [text, says] : mistakes) {
    WriteFile(directory_.File("model.textproto"), text);
    const Result result = RunToEnd({KINORA_FRONTEND_BINARY, "--check-config", "--state-directory", directory_.File("s"),
                                    "--model-description", directory_.File("model.textproto")});
    EXPECT_EQ(result.status, kRefused);
    EXPECT_THAT(result.err, AllOf(HasSubstr("model_description: "), HasSubstr(says)));
  }
  WriteFile(directory_.File("model.textproto"), whole);
  WriteFile(directory_.File("again.textproto"), whole);
  const Result twice = RunToEnd({KINORA_FRONTEND_BINARY, "--check-config", "--state-directory", directory_.File("s"),
                                 "--model-description", directory_.File("model.textproto"), "--model-description",
                                 directory_.File("again.textproto")});
  EXPECT_THAT(twice.err, HasSubstr("again.textproto: id: \"scripted\" is also used by another file"));
}

// The description from the files equals the one from the loaded model, except for fields that need loading.
TEST_F(TinyModel, IsDescribedByItsFilesAlone) {
  server_.Start();
  json loaded = server_.Json({"models"});
  const std::vector<std::string> describe = {
      KINORA_WORKER_BINARY, "--describe", "--model", kModel, "--model", kText, "--model=kind=dev", "--model-id=tiny"};
  const Result result = RunToEnd(describe);
  ASSERT_EQ(result.status, 0) << result.err;
  WriteFile(directory_.File("tiny.textproto"), result.out);
  const TemporaryDirectory other;
  Server described(other, {.binary = KINORA_WORKER_BINARY, .flags = {}});
  described.Start(/*ready=*/false, {"--model-description=" + directory_.File("tiny.textproto")});
  json told = described.Json({"models"});
  EXPECT_FALSE(loaded["digests"].empty());
  loaded.erase("digests");
  for (json& limits : loaded["limits"]) limits.erase("max_tokens");
  EXPECT_EQ(told, loaded);
}

}  // namespace
}  // namespace kinora
