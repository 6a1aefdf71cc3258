// The layering of the tree (which folders may include which), and words that some folders may not use. Reads the
// sources, so that the rules also apply to files that no target lists yet.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <string>
#include <vector>

#include "tests/house/tree.h"

namespace kinora {
namespace {

bool StartsWith(const std::string& text, const std::string& prefix) { return text.rfind(prefix, 0) == 0; }

bool Under(const std::string& path, const std::string& folder) { return StartsWith(path, folder + "/"); }

// Returns the path in an `#include` line, or "".
std::string Included(const std::string& line) {
  static const std::regex kInclude(R"(^\s*#\s*include\s+[<"]([^>"]+)[>"])");
  std::smatch match;
  return std::regex_search(line, match, kInclude) ? match[1].str() : "";
}

// The parts of this tree that each folder may include besides itself.
const std::map<std::string, std::vector<std::string>>& Allowed() {
  static const auto* allowed = new std::map<std::string, std::vector<std::string>>{
      {"kernels", {}},
      {"engine/base", {}},
      {"engine/request", {"engine/base/"}},
      {"engine/tensor", {"engine/base/"}},
      {"engine/ops", {"engine/base/", "engine/tensor/"}},
      {"engine/parallel", {"engine/base/", "engine/tensor/", "engine/ops/"}},
      {"engine/processes", {"engine/base/", "engine/tensor/", "engine/ops/", "engine/parallel/"}},
      {"engine/weights", {"engine/base/", "engine/tensor/", "engine/ops/", "engine/parallel/"}},
      {"engine/config", {"engine/base/", "engine/tensor/", "engine/weights/"}},
      {"engine/text", {"engine/base/", "engine/weights/checkpoint.h", "engine/weights/json_text.h"}},
      {"engine/model",
       {"engine/base/", "engine/tensor/", "engine/ops/", "engine/parallel/", "engine/weights/", "engine/config/",
        "engine/text/"}},
      {"engine/diffusion", {"engine/base/", "engine/tensor/", "engine/ops/", "engine/parallel/"}},
      {"engine/pipeline",
       {"engine/base/", "engine/tensor/", "engine/ops/", "engine/parallel/", "engine/weights/", "engine/config/",
        "engine/text/", "engine/model/", "engine/diffusion/", "engine/request/"}},
      {"engine/media", {"engine/base/", "engine/tensor/", "engine/pipeline/clip_sink.h"}},
      {"server/common", {"engine/base/", "engine/request/", "kinora/v1/"}},
      {"server/net", {"engine/base/", "server/common/", "kinora/v1/"}},
      {"server/s3", {"engine/base/", "server/common/"}},
      {"server/config", {"engine/base/", "server/common/", "server/net/", "kinora/v1/"}},
      {"server/request",
       {"engine/base/", "engine/media/container.h", "engine/request/", "server/common/", "kinora/v1/"}},
      {"server/terminal", {"engine/base/", "engine/media/", "server/common/", "kinora/v1/"}},
      // Uses libav only through engine/media's owner types, and nothing of a server, because it processes untrusted
      // files.
      {"server/decode", {"engine/base/", "engine/media/av.h", "engine/request/", "server/common/", "server/request/"}},
      {"server/frontend",
       {"engine/base/", "engine/request/", "server/common/", "server/net/", "server/s3/", "server/config/",
        "server/request/", "kinora/v1/"}},
      {"server/frontend/jobs",
       {"engine/base/", "server/common/", "server/net/", "server/config/", "server/request/", "kinora/v1/"}},
      {"server/frontend/groups",
       {"engine/base/", "server/common/", "server/net/", "server/config/", "server/request/", "server/frontend/jobs/",
        "kinora/v1/"}},
      {"server/frontend/postgres",
       {"engine/base/", "server/common/", "server/net/", "server/frontend/jobs/", "server/frontend/inputs/",
        "server/frontend/postgres/", "kinora/v1/"}},
      {"server/frontend/inputs",
       {"engine/base/", "server/common/", "server/net/", "server/config/", "server/request/", "server/frontend/jobs/",
        "kinora/v1/"}},
      {"server/frontend/artifacts",
       {"engine/base/", "server/common/", "server/net/", "server/config/", "server/request/", "server/s3/",
        "server/frontend/jobs/", "server/frontend/inputs/", "kinora/v1/"}},
      {"server/frontend/api",
       {"engine/base/", "engine/request/", "server/common/", "server/net/", "server/config/", "server/request/",
        "server/frontend/jobs/", "server/frontend/inputs/", "kinora/v1/"}},
      {"server/frontend/peers",
       {"engine/base/", "server/common/", "server/net/", "server/config/", "server/request/", "server/frontend/jobs/",
        "server/frontend/inputs/", "server/frontend/api/", "kinora/v1/"}},
      {"server/gateway",
       {"engine/base/", "engine/request/", "server/common/", "server/net/", "server/config/", "server/request/",
        "kinora/v1/"}},
      {"server/worker",
       {"engine/", "server/common/", "server/net/", "server/config/", "server/request/",
        "server/decode/decoder_process.h", "server/decode/input_reader.h", "kinora/v1/"}},
      // kinora-render does a worker's job without a server, so it may include the worker's headers.
      {"server/render",
       {"engine/", "server/common/", "server/net/", "server/config/", "server/request/", "server/terminal/",
        "server/decode/", "server/worker/", "kinora/v1/"}},
      {"server/doctor",
       {"engine/", "server/common/", "server/net/", "server/config/", "server/request/", "kinora/v1/"}},
      {"server/client",
       {"engine/", "server/common/", "server/net/", "server/config/", "server/request/", "server/terminal/",
        "server/doctor/", "kinora/v1/"}},
      {"server/manual",
       {"engine/", "server/common/", "server/net/", "server/config/", "server/request/", "server/client/",
        "server/gateway/gateway_flags.h", "server/render/", "kinora/v1/"}},
  };
  return *allowed;
}

bool OfThisTree(const std::string& include) {
  for (const char* top : {"engine/", "server/", "kernels/", "tests/", "kinora/v1/"}) {
    if (StartsWith(include, top)) return true;
  }
  return false;
}

TEST(IncludeRules, TheTreeIsThere) { EXPECT_GT(CppSources().size(), 50u); }

TEST(IncludeRules, EveryFolderIncludesOnlyWhatLiesBelowIt) {
  for (const Source& source : CppSources()) {
    for (const auto& [folder, others] : Allowed()) {
      if (!Under(source.path, folder)) continue;
      for (const std::string& line : source.lines) {
        const std::string include = Included(line);
        if (!OfThisTree(include) || Under(include, folder)) continue;
        bool allowed = folder == "engine/ops" && Under(source.path, "engine/ops/cuda") && Under(include, "kernels");
        allowed |= source.path == "kernels/device/device.h" && include == "tests/simt/simt.h";
        for (const std::string& other : others) allowed |= StartsWith(include, other);
        EXPECT_TRUE(allowed) << source.path << " includes " << include;
      }
    }
  }
}

TEST(IncludeRules, EverySourceFolderHasARule) {
  for (const Source& source : CppSources()) {
    if (Under(source.path, "tests")) continue;
    bool found = false;
    for (const auto& [folder, others] : Allowed()) found |= Under(source.path, folder);
    EXPECT_TRUE(found) << source.path;
  }
}

TEST(IncludeRules, ForeignLibrariesStayWhereTheyBelong) {
  const struct {
    std::regex include;
    std::vector<std::string> folders;
  } rules[] = {
      {std::regex("^(libav|libsw)"), {"engine/media/", "server/decode/", "tests/media/"}},
      {std::regex("^lcms2"), {"server/decode/"}},
      {std::regex("^jpeglib"), {"engine/media/"}},
      {std::regex("^grpc|\\.grpc\\.pb\\.h$"), {"server/", "tests/"}},
      {std::regex("^google/|\\.pb\\.h$"), {"server/", "tests/"}},
      {std::regex("^(dnnl|oneapi)"), {"tests/bench/"}},
      {std::regex("^boost/"), {"server/gateway/"}},
      {std::regex("^curl/"), {"server/gateway/input_fetcher.cc", "server/s3/http_client.cc", "tests/fuzz/"}},
      {std::regex("^sqlite3"), {"server/frontend/jobs/", "tests/"}},
      {std::regex("^libpq"), {"server/frontend/postgres/postgres_driver.cc"}},
      {std::regex("^pugixml"), {"server/s3/s3_answers.cc"}},
      {std::regex("^prometheus"), {"server/", "tests/"}},
      {std::regex("^absl/"), {"engine/", "server/", "tests/"}},
      {std::regex("^(gtest|gmock)/"), {"tests/"}},
      {std::regex("^tests/"), {"tests/", "kernels/device/device.h"}},  // the simulated device without nvcc
      {std::regex("^nvtx3/"), {"engine/ops/cuda/nvtx_ranges.cc", "tests/ops/nvtx_ranges_test.cc"}},
      {std::regex("^cudnn"), {"engine/ops/cuda/cudnn_frontend.cc"}},
      {std::regex("^cuda"),
       {"kernels/", "engine/ops/cuda/", "engine/processes/nccl", "tests/simt/", "tests/kernels/", "tests/gpu_check/"}},
  };
  for (const Source& source : CppSources()) {
    for (const std::string& line : source.lines) {
      const std::string include = Included(line);
      if (include.empty()) continue;
      for (const auto& rule : rules) {
        if (!std::regex_search(include, rule.include)) continue;
        bool allowed = false;
        for (const std::string& folder : rule.folders) allowed |= StartsWith(source.path, folder);
        EXPECT_TRUE(allowed) << source.path << " includes " << include;
      }
    }
  }
}

// Model code must not name ranks, backends or streams, so that it does not change for sharding or devices.
TEST(WordRules, ModelCodeNamesNoRankNoBackendAndNoStream) {
  const std::regex words(R"(\bCommunicator\b|->rank\(|\)\.rank\(|\bStream\b|[Cc]uda|CUDA|\b(Cpu|Dry)Ops\b)");
  for (const Source& source : CppSources()) {
    if (!Under(source.path, "engine/model")) continue;
    for (const std::string& line : source.lines) {
      std::string code = line.substr(0, line.find("//"));
      code =
          std::regex_replace(code, std::regex(R"(shape(\(\))?\.rank\(\))"), "");  // the number of dimensions of a shape
      EXPECT_FALSE(std::regex_search(code, words)) << source.path << ": " << line;
    }
  }
}

// Only OpenBackend chooses the backend; other code uses Backend.
TEST(WordRules, ABackendsOpsAreNamedInTheirFolderAndInTestsAlone) {
  const std::regex words(R"(\b(Cpu|Cuda)(Ops|Backend|Weight)\b|engine/ops/(cpu_|cpu/|cuda/|backend_kinds))");
  for (const Source& source : CppSources()) {
    if (Under(source.path, "engine/ops") || Under(source.path, "tests")) continue;
    if (StartsWith(source.path, "engine/processes/nccl")) continue;  // collectives on a CUDA stream
    for (const std::string& line : source.lines) {
      EXPECT_FALSE(std::regex_search(line.substr(0, line.find("//")), words)) << source.path << ": " << line;
    }
  }
}

// Device memory comes from a backend. Ordinary memory is only for data that only the host accesses, such as data read
// from a file.
TEST(WordRules, ModelsAndPipelinesAskTheirBackendForMemory) {
  for (const Source& source : CppSources()) {
    if (!Under(source.path, "engine/model") && !Under(source.path, "engine/pipeline")) continue;
    for (const std::string& line : source.lines) {
      EXPECT_EQ(line.find("Buffer::Allocate"), std::string::npos) << source.path << ": " << line;
    }
  }
}

TEST(WordRules, NoConditionalCompilationChoosesABackend) {
  const std::regex conditional(R"(^\s*#\s*(if|ifdef|ifndef|elif)\b(?!.*_H_$).*(CUDA|NVCC|KINORA_))");
  for (const Source& source : CppSources()) {
    if (!Under(source.path, "engine") && !Under(source.path, "server")) continue;
    if (Under(source.path, "engine/ops/cpu")) continue;  // one file compiled per instruction set
    for (const std::string& line : source.lines) {
      EXPECT_FALSE(std::regex_search(line, conditional)) << source.path << ": " << line;
    }
  }
}

}  // namespace
}  // namespace kinora
