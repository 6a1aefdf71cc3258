// kinora-render as a user runs it, on the committed tiny models: results against the reference's whole renders, ranks
// against one rank, files, reports and exit statuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/media/jpeg.h"
#include "server/request/request_conversion.h"
#include "tests/media/clip_fixtures.h"
#include "tests/testing/full_disk.h"
#include "tests/testing/golden.h"
#include "tests/testing/part_files.h"
#include "tests/testing/subprocess.h"

namespace kinora {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Arguments = std::vector<std::string>;

const std::string kSource = KINORA_SOURCE_DIR;

Arguments TinyModel() {
  return {"--model", kSource + "/models/tiny/ltx-2.3-tiny-dev.safetensors", "--model",
          "text_encoder=" + kSource + "/models/tiny/gemma"};
}

ProcessResult RenderCommand(Arguments arguments) {
  arguments.insert(arguments.begin(), KINORA_RENDER);
  return RunProcess(arguments);
}

Arguments operator+(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const Arguments kSmall = {"--prompt",     "a paper boat", "--width", "64", "--height", "64", "--frames", "9",
                          "--frame-rate", "24",           "--steps", "2",  "--seed",   "7",  "--recipe", "ONE_STAGE"};

// Reads a 64-bit number, which proto3 JSON writes as a string.
int64_t Number(const nlohmann::json& text) { return std::stoll(text.get<std::string>()); }

// Reads a tensor from a file written by --dump.
HostTensor Dumped(const std::string& path, const std::string& name) {
  auto file = SafetensorsFile::Open(path);
  KINORA_CHECK(file.ok()) << file.status().ToString();
  const TensorInfo* info = (*file)->Find(name);
  KINORA_CHECK(info != nullptr) << name;
  HostTensor tensor(info->dtype, info->shape);
  KINORA_CHECK((*file)->Read(*info, 0, info->bytes, tensor.tensor().raw()).ok());
  return tensor;
}

// Returns every stride-th row (dimension 1) or pixel (dimensions 1 and 2), like the thinned goldens.
HostTensor Thinned(const Tensor& x, int64_t stride) {
  const bool frames = x.shape().rank() == 4;
  const auto count = [stride](int64_t n) { return (n + stride - 1) / stride; };
  const int64_t inner = x.dim(-1), rows = x.dim(1), columns = frames ? x.dim(2) : 1;
  const int64_t out_columns = frames ? count(columns) : 1;
  HostTensor out(DType::kF32,
                 frames ? Shape{x.dim(0), count(rows), out_columns, inner} : Shape{x.dim(0), count(rows), inner});
  float* to = out.f32();
  for (int64_t a = 0; a < x.dim(0); ++a) {
    for (int64_t b = 0; b < rows; b += stride) {
      for (int64_t c = 0; c < columns; c += stride) {
        to = std::copy_n(x.data<float>() + ((a * rows + b) * columns + c) * inner, inner, to);
      }
    }
  }
  return out;
}

class RenderGoldenTest : public testing::TestWithParam<const char*> {};

TEST_P(RenderGoldenTest, FloatRendersEqualTheReference) {
  Golden golden(GetParam());
  const auto parameters = nlohmann::json::parse(golden.metadata("parameters"));
  const std::string request = TempPath("request.json"), dump = TempPath("dump.safetensors");
  std::ofstream(request) << parameters["request"].dump();
  const ProcessResult result =
      RenderCommand({"--model", kSource + "/" + parameters["model"].get<std::string>(), "--model",
                     "text_encoder=" + kSource + "/" + parameters["text_encoder"].get<std::string>(), "--request",
                     request, "--noise", golden.path(), "--dump", dump, "--precision", "f32", "--quiet"});
  ASSERT_EQ(result.exit_status, 0) << result.err;
  for (const std::string& name : golden.Names("out.")) {
    const std::string plain = name.substr(4);
    const HostTensor got = Dumped(dump, plain);
    if (plain == "input_ids") {
      const int32_t* expected = golden.Get(name).data<int32_t>();
      ASSERT_EQ(got.tensor().elements(), golden.Get(name).elements());
      for (int64_t i = 0; i < got.tensor().elements(); ++i)
        EXPECT_EQ(got.tensor().data<int64_t>()[i], expected[i]) << i;
    } else if (plain.find("context") != std::string::npos) {
      EXPECT_TRUE(Near(Thinned(got.tensor(), parameters["context_row_stride"]).tensor(), golden.Get(name), 1e-5))
          << plain;
    } else if (plain == "frames") {
      const HostTensor thinned = Thinned(got.tensor(), parameters["frame_stride"]);
      double sum = 0;
      for (int64_t i = 0; i < thinned.tensor().elements(); ++i) {
        sum += std::pow(static_cast<double>(thinned.tensor().data<float>()[i]) - golden.Get(name).data<float>()[i], 2);
      }
      EXPECT_GE(-10 * std::log10(sum / static_cast<double>(thinned.tensor().elements())), 60) << "PSNR in dB";
    } else {
      EXPECT_TRUE(Near(got.tensor(), golden.Get(name), plain == "sigmas" ? 1e-6 : 1e-4)) << plain;
    }
  }
}

TEST_P(RenderGoldenTest, TheSeedDrawsTheSameNoise) {
  Golden golden(GetParam());
  const auto parameters = nlohmann::json::parse(golden.metadata("parameters"));
  const std::string request = TempPath("request.json"), dump = TempPath("drawn.safetensors");
  std::ofstream(request) << parameters["request"].dump();
  const ProcessResult result =
      RenderCommand({"--model", kSource + "/" + parameters["model"].get<std::string>(), "--model",
                     "text_encoder=" + kSource + "/" + parameters["text_encoder"].get<std::string>(), "--request",
                     request, "--dump", dump, "--precision", "f32", "--quiet"});
  ASSERT_EQ(result.exit_status, 0) << result.err;
  EXPECT_TRUE(Near(Dumped(dump, "video_latent").tensor(), golden.Get("out.video_latent"), 1e-4));
  EXPECT_TRUE(Near(Dumped(dump, "audio_latent").tensor(), golden.Get("out.audio_latent"), 1e-4));
}

INSTANTIATE_TEST_SUITE_P(All, RenderGoldenTest,
                         testing::Values("pipeline_one_stage", "pipeline_distilled", "pipeline_2_0"),
                         [](const auto& info) { return std::string(info.param); });

TEST(RenderTest, ADevModelWithoutItsDistilledLoraIsWarnedOf) {
  Arguments distilled = TinyModel() + kSmall + Arguments{"--model", "kind=dev", "--output", TempPath("few_steps.mp4")};
  std::replace(distilled.begin(), distilled.end(), std::string("ONE_STAGE"), std::string("DISTILLED"));
  const auto steps = std::find(distilled.begin(), distilled.end(), "--steps");
  distilled.erase(steps, steps + 2);
  const ProcessResult warned = RenderCommand(distilled);
  EXPECT_EQ(warned.exit_status, 0) << warned.err;
  EXPECT_THAT(warned.err, HasSubstr("note: DISTILLED takes few steps without guidance"));
  const ProcessResult trained = RenderCommand(TinyModel() + kSmall + Arguments{"--output", TempPath("guided.mp4")});
  EXPECT_THAT(trained.err, testing::Not(HasSubstr("note:")));
}

TEST(RenderTest, RanksEqualOneRank) {
  const auto latent = [](const char* ranks, const char* precision) {
    const std::string dump = TempPath("ranks.safetensors");
    Arguments arguments = TinyModel() + kSmall + Arguments{"--dump", dump, "--precision", precision, "--quiet"};
    if (*ranks != '\0') arguments = arguments + Arguments{"--ranks", ranks};
    const ProcessResult result = RenderCommand(arguments);
    EXPECT_EQ(result.exit_status, 0) << ranks << ": " << result.err;
    return result.exit_status == 0 ? Dumped(dump, "frames") : HostTensor(DType::kF32, {1});
  };
  for (const char* precision : {"f32", "bf16"}) {
    const HostTensor one = latent("", precision);
    for (const char* ranks : {"tokens=2", "guidance=2", "tokens=2,guidance=2"}) {
      EXPECT_EQ(RelativeError(latent(ranks, precision).tensor(), one.tensor()), 0) << ranks << " " << precision;
    }
  }
  EXPECT_LE(RelativeError(latent("tensor=2", "f32").tensor(), latent("", "f32").tensor()), 1e-5);
}

TEST(RenderTest, RanksThatAreProcessesMakeTheMovieOfRanksThatAreThreads) {
  const std::string movie = TempPath("processes.mp4");
  const auto rendered = [&](const Arguments& how, const char* precision) {
    const ProcessResult result =
        RenderCommand(TinyModel() + kSmall + Arguments{"--quiet", "--precision", precision, "--output", movie} + how);
    EXPECT_EQ(result.exit_status, 0) << result.err;
    return ReadFile(movie);
  };
  for (const char* precision : {"f32", "bf16"}) {
    for (const char* ranks : {"tokens=2", "guidance=4", "tokens=2,guidance=2", "tensor=2", "tokens=2,tensor=2"}) {
      EXPECT_EQ(rendered({"--ranks", ranks, "--processes"}, precision), rendered({"--ranks", ranks}, precision))
          << ranks << " " << precision;
    }
  }
}

// With one pass, guidance ranks split tokens.
TEST(RenderTest, ADistilledMovieIsThatOfOneRankOnProcessesOfAGuidanceMesh) {
  const std::string movie = TempPath("distilled.mp4");
  const Arguments request = {"--prompt", "a paper boat", "--width", "64",     "--height", "64",       "--frames",
                             "9",        "--frame-rate", "24",      "--seed", "7",        "--recipe", "DISTILLED"};
  const auto rendered = [&](const Arguments& how, const char* precision) {
    const ProcessResult result =
        RenderCommand(TinyModel() + request + Arguments{"--quiet", "--precision", precision, "--output", movie} + how);
    EXPECT_EQ(result.exit_status, 0) << result.err;
    return ReadFile(movie);
  };
  for (const char* precision : {"f32", "bf16"}) {
    const std::string one = rendered({}, precision);
    for (const char* ranks : {"guidance=2", "guidance=2,tokens=2"}) {
      EXPECT_EQ(rendered({"--ranks", ranks, "--processes"}, precision), one) << ranks << " " << precision;
      EXPECT_EQ(rendered({"--ranks", ranks}, precision), one) << ranks << " " << precision;
    }
  }
}

TEST(RenderTest, TheMovieShowsTheFramesAndIsTheSameEachTime) {
  const std::string movie = TempPath("clip.mp4"), again = TempPath("again.mp4"), dump = TempPath("clip.safetensors");
  const Arguments common =
      TinyModel() + kSmall + Arguments{"--quiet", "--output-options", R"({"crf": 8, "embedParameters": true})"};
  ASSERT_EQ(RenderCommand(common + Arguments{"--output", movie, "--dump", dump}).exit_status, 0);
  ASSERT_EQ(RenderCommand(common + Arguments{"--output", again}).exit_status, 0);
  EXPECT_EQ(ReadFile(movie), ReadFile(again));

  DecodedMovie decoded = DecodeMovie(movie);
  EXPECT_THAT(decoded.metadata["comment"], HasSubstr("\"seed\":\"7\""));
  const HostTensor frames = Dumped(dump, "frames");
  ASSERT_EQ(decoded.rgb.size(), 9u);
  EXPECT_NEAR(decoded.audio_seconds, decoded.video_seconds, 0.5 / decoded.sample_rate);
  // Compares only luma: this model's colours change from pixel to pixel, which 4:2:0 does not preserve.
  const float* rgb = frames.tensor().data<float>();
  for (int64_t f = 0; f < 9; ++f) {
    double sum = 0;
    for (int64_t i = 0; i < 64 * 64; ++i, rgb += 3) {
      const double expected = 16 + 219 * (0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2]);
      sum += std::pow(expected - decoded.luma[f][i], 2);
    }
    EXPECT_LT(std::sqrt(sum / (64 * 64)), 4) << f;  // on a scale of 219
  }
}

TEST(RenderTest, EveryContainerIsWritten) {
  const std::string folder = TempPath("folder");
  ASSERT_EQ(mkdir(folder.c_str(), 0755), 0);
  for (const std::string& output :
       {TempPath("c.webm"), TempPath("c.zip"), TempPath("c.wav"), folder, TempPath("new") + "/"}) {
    const ProcessResult result = RenderCommand(TinyModel() + kSmall + Arguments{"--quiet", "--output", output});
    ASSERT_EQ(result.exit_status, 0) << output << ": " << result.err;
    EXPECT_THAT(result.out, StartsWith(output + ": 64x64, 9 frames"));
    EXPECT_EQ(access(output.c_str(), F_OK), 0);
  }
  int64_t width = 0, height = 0;
  DecodePng(ReadFile(folder + "/000008.png"), width, height);
  EXPECT_EQ(width, 64);
}

TEST(RenderTest, APreviewIsWrittenAsTheClipIsMadeOnAnyRanks) {
  std::vector<std::string> previews;
  for (const Arguments& ranks : {Arguments{}, Arguments{"--ranks", "tokens=2", "--processes"}}) {
    const std::string preview = TempPath("now.jpg");
    const ProcessResult result = RenderCommand(
        TinyModel() + kSmall + ranks + Arguments{"--quiet", "--preview", preview, "--output", TempPath("p.mp4")});
    ASSERT_EQ(result.exit_status, 0) << result.err;
    previews.push_back(ReadFile(preview));
    const auto picture = DecodeJpeg(previews.back(), 64);
    ASSERT_TRUE(picture.ok()) << picture.status();
    EXPECT_EQ(picture->width, 64);
  }
  EXPECT_EQ(previews[0], previews[1]);
}

TEST(RenderTest, ReportsTimesCollectivesAndTrace) {
  const std::string trace = TempPath("trace.json"), movie = TempPath("report.mp4");
  const ProcessResult result = RenderCommand(
      TinyModel() + kSmall + Arguments{"--json", "--trace", trace, "--output", movie, "--ranks", "tokens=2"});
  ASSERT_EQ(result.exit_status, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["file"], movie);
  EXPECT_EQ(json["seed"], "7");
  EXPECT_EQ(json["step_seconds"]["denoise"].size(), 2u);
  EXPECT_GT(json["seconds"]["load"], 0);
  EXPECT_GT(Number(json["collectives"]["all_to_all"]["calls"]), 0);
  const nlohmann::json memory = json["memory"];
  EXPECT_GT(Number(memory["measured"]["activation_peak_bytes"]), 1 << 20);
  EXPECT_LE(Number(memory["measured"]["activation_peak_bytes"]), Number(memory["planned"]["activation_bytes"]));
  EXPECT_GT(Number(memory["measured"]["process_peak_bytes"]), Number(memory["measured"]["activation_peak_bytes"]));
  EXPECT_GT(Number(memory["planned"]["weight_bytes"]), 1 << 20);
  EXPECT_EQ(json["generation"]["num_inference_steps"], 2);
  EXPECT_EQ(json["generation"]["prompt"], "a paper boat");
  EXPECT_NE(json["generation"]["negative_prompt"], "");  // the model's own, used by guidance
  v1::Generation generation;                             // the report's generation is a valid request
  EXPECT_TRUE(ParseJson("generation", json["generation"].dump(), generation).ok());
  EXPECT_THAT(result.err, HasSubstr("denoise 1/2"));  // plain lines: standard error is not a terminal
}

// getrusage would include this program's memory from before it executed kinora-render.
TEST(RenderTest, MemoryMeasuredIsThatOfTheRenderAlone) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own memory is counted";
#endif
  const std::vector<char> held(size_t{1} << 30, 1);
  const ProcessResult result =
      RenderCommand(TinyModel() + kSmall + Arguments{"--json", "--quiet", "--output", TempPath("alone.mp4")});
  ASSERT_EQ(result.exit_status, 0) << result.err;
  EXPECT_LT(Number(nlohmann::json::parse(result.out)["memory"]["measured"]["process_peak_bytes"]),
            static_cast<int64_t>(held.size()));
}

// Ranks in one process or several: each has a track with its own events.
TEST(RenderTest, ATraceHasATrackPerRankWithItsStagesStepsOpsAndWaits) {
  for (const Arguments& ranks : {Arguments{"--ranks", "tokens=2"}, Arguments{"--ranks", "tokens=2", "--processes"}}) {
    const std::string trace = TempPath("trace.json"), movie = TempPath("traced.mp4");
    const ProcessResult result =
        RenderCommand(TinyModel() + kSmall + ranks + Arguments{"--quiet", "--trace", trace, "--output", movie});
    ASSERT_EQ(result.exit_status, 0) << result.err;
    std::map<int, std::map<std::string, int>> seen;  // rank -> "category name" -> number of events
    double first_begin = 1e12, last_begin = -1e12;
    const auto events = nlohmann::json::parse(ReadFile(trace));
    for (const auto& event : events["traceEvents"]) {
      std::string what = event.value("cat", "") + " " + std::string(event["name"]);
      if (what == "wait wait") what = "wait " + std::string(event["args"]["axis"]);
      ++seen[event["pid"].get<int>() - 1][what];
      if (event["ph"] != "X") continue;
      first_begin = std::min<double>(first_begin, event["ts"]);
      last_begin = std::max<double>(last_begin, event["ts"]);
    }
    EXPECT_EQ(seen.size(), 2u);
    for (const int rank : {0, 1}) {
      std::map<std::string, int>& on_rank = seen[rank];
      EXPECT_EQ(on_rank[" process_name"], 1) << rank;
      EXPECT_EQ(on_rank[" thread_name"], 1) << rank;
      EXPECT_EQ(on_rank["step step"], 2) << rank;
      for (const char* once :
           {"load load", "stage encode", "stage denoise", "stage decode_video", "stage decode_audio"}) {
        EXPECT_EQ(on_rank[once], 1) << once << " on rank " << rank;
      }
      EXPECT_GT(on_rank["op Matmul"], 50) << rank;
      EXPECT_GT(on_rank["op all_to_all"], 0) << rank;
      EXPECT_EQ(on_rank["wait tokens"], on_rank["op all_to_all"] + on_rank["op all_gather"]) << rank;
    }
    EXPECT_GE(first_begin, 0);
    EXPECT_LT(last_begin, 300e6);
  }
}

// The viewer's totals equal the plan's: the FLOPs of each rank's products add up to the planned number.
TEST(RenderTest, TheWorkInATraceIsThatOfThePlan) {
  const std::string trace = TempPath("trace.json"), movie = TempPath("traced.mp4");
  ASSERT_EQ(RenderCommand(TinyModel() + kSmall + Arguments{"--quiet", "--trace", trace, "--output", movie}).exit_status,
            0);
  int64_t flop = 0;
  const auto events = nlohmann::json::parse(ReadFile(trace));
  for (const auto& event : events["traceEvents"]) {
    if (event.contains("args")) flop += event["args"].value("flop", int64_t{0});
  }
  const ProcessResult plan = RenderCommand(TinyModel() + kSmall + Arguments{"--plan", "--json"});
  ASSERT_EQ(plan.exit_status, 0) << plan.err;
  EXPECT_EQ(static_cast<double>(flop), nlohmann::json::parse(plan.out).at(0)["flops"].get<double>());
}

TEST(RenderTest, ATraceIsWholeOrAbsent) {
  const std::string disk = TempPath("disk"), movie = TempPath("traced.mp4");
  ASSERT_EQ(mkdir(disk.c_str(), 0700), 0);
  const auto result = OnSmallDisk(disk, 64 << 10, [&]() -> std::string {
    const ProcessResult render =
        RenderCommand(TinyModel() + kSmall + Arguments{"--trace", disk + "/t.json", "--output", movie, "--quiet"});
    if (render.exit_status != 1) return "exit status " + std::to_string(render.exit_status) + ": " + render.err;
    if (render.err.find(disk + "/t.json") == std::string::npos) return render.err;
    if (!std::filesystem::is_empty(disk)) return "half a trace is left";
    return access(movie.c_str(), F_OK) == 0 ? "" : "the movie went with the trace";
  });
  if (result == SmallDiskResult::kNotPermitted) GTEST_SKIP() << "no mount namespaces here";
  EXPECT_EQ(result, SmallDiskResult::kPassed);
  // A trace that cannot be written is rejected before minutes of computation.
  const ProcessResult early =
      RenderCommand(TinyModel() + kSmall + Arguments{"--trace", disk + "/no/t.json", "--output", TempPath("no.mp4")});
  EXPECT_NE(early.exit_status, 0);
  EXPECT_THAT(early.err, testing::AllOf(HasSubstr("/no/t.json"), testing::Not(HasSubstr("denoise"))));
}

TEST(RenderTest, ThePlanNeedsNoRequestAndIsWhatARunReserves) {
  const ProcessResult table = RenderCommand(TinyModel() + Arguments{"--plan", "--device-memory", "50000000"});
  ASSERT_EQ(table.exit_status, 0) << table.err;
  EXPECT_EQ(std::count(table.out.begin(), table.out.end(), '\n'), 7) << table.out;
  EXPECT_THAT(table.out, HasSubstr(" no "));
  // A GPU is meant. Its plan needs neither a device nor a build with CUDA.
  const std::string least = "the smallest --device-memory that works (a GPU): ";
  const size_t at = table.out.find(least);
  ASSERT_NE(at, std::string::npos) << table.out;
  const size_t begin = at + least.size();
  const std::string works = table.out.substr(begin, table.out.find(',', begin) - begin);
  const ProcessResult fits = RenderCommand(TinyModel() + Arguments{"--plan", "--device-memory", works});
  ASSERT_EQ(fits.exit_status, 0) << fits.err;
  EXPECT_THAT(fits.out, HasSubstr(" yes ")) << works;
  const ProcessResult gpu =
      RenderCommand(TinyModel() + Arguments{"--plan", "--device", "cuda", "--device-memory", works});
  EXPECT_EQ(gpu.out, fits.out);
  const ProcessResult cpu =
      RenderCommand(TinyModel() + Arguments{"--plan", "--device", "cpu", "--device-memory", "80GB"});
  EXPECT_THAT(cpu.out, HasSubstr("(the CPU): "));

  // A flag for one guidance term leaves the others as in the recipe. Without guidance towards the prompt there are
  // fewer passes.
  const auto flops = [](const Arguments& terms) {
    const ProcessResult result =
        RenderCommand(TinyModel() + Arguments{"--plan", "--json", "--size", "64x64", "--frames", "9"} + terms);
    EXPECT_EQ(result.exit_status, 0) << result.err;
    return nlohmann::json::parse(result.out).at(0)["flops"].get<double>();
  };
  const double all = flops({}), without_cfg = flops({"--cfg", "1"});
  EXPECT_LT(without_cfg, all);
  EXPECT_LT(flops({"--cfg", "1", "--stg", "0", "--modality-scale", "1"}), without_cfg);
  EXPECT_EQ(flops({"--cfg", "5"}), all);

  const auto plan = [](const char* frames) {
    const ProcessResult result = RenderCommand(
        TinyModel() + Arguments{"--plan", "--json", "--width", "64", "--height", "64", "--frames", frames});
    EXPECT_EQ(result.exit_status, 0) << result.err;
    return nlohmann::json::parse(result.out).at(0);
  };
  const auto small = plan("9"), large = plan("97");
  EXPECT_EQ(small["num_frames"], 9);
  EXPECT_EQ(small["weight_bytes"], large["weight_bytes"]);
  EXPECT_LT(small["flops"], large["flops"]);
  EXPECT_LT(Number(small["activation_bytes"]), Number(large["activation_bytes"]));
  const ProcessResult result = RenderCommand(
      TinyModel() + Arguments{"--plan", "--json", "--size", "64x64", "--frames", "97", "--untiled-decode"});
  ASSERT_EQ(result.exit_status, 0) << result.err;
  const auto untiled = nlohmann::json::parse(result.out).at(0);
  EXPECT_EQ(small["tiles"], "untiled");
  EXPECT_EQ(large["tiles"], "frames=80/24,height=64,width=64");
  EXPECT_EQ(untiled["tiles"], "untiled");
  EXPECT_GT(Number(untiled["activation_bytes"]), Number(large["activation_bytes"]));
  EXPECT_LT(untiled["flops"], large["flops"]);
}

// docs/model.md and README.md: bfloat16 weights of 18.99 + 3.17 + 11.77 billion parameters, and the decoders.
TEST(RenderTest, AReleasedModelIsPlannedWithoutItsFiles) {
  const auto first = [](const Arguments& more) {
    const ProcessResult result = RenderCommand(Arguments{"--plan", "--json", "--like", "ltx-2.3-22b"} + more);
    EXPECT_EQ(result.exit_status, 0) << result.err;
    return nlohmann::json::parse(result.out).at(0);
  };
  const nlohmann::json dev = first({}), distilled = first({"--recipe", "distilled"});
  EXPECT_EQ(dev["num_frames"], 121);
  EXPECT_NEAR(Number(dev["weight_bytes"]), 70e9, 1e9);
  EXPECT_NEAR(dev["flops"].get<double>(), 19.8e15, 0.1e15);
  EXPECT_NEAR(distilled["flops"].get<double>(), 1.7e15, 0.1e15);
  EXPECT_EQ(distilled["weight_bytes"], dev["weight_bytes"]);
  const ProcessResult table =
      RenderCommand({"--plan", "--like", "ltx-2-19b", "--device", "cuda", "--device-memory", "80GB"});
  EXPECT_EQ(table.exit_status, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr(" yes "));
  const std::pair<Arguments, const char*> mistakes[] = {
      {{"--plan", "--like", "ltx-9"}, "--like ltx-9: no released model of this name; there are ltx-2-19b, ltx-2.3-22b"},
      {{"--like", "ltx-2-19b", "--prompt", "a", "--output", "a.mp4"}, "--like: needs --plan"},
      {TinyModel() + Arguments{"--plan", "--like", "ltx-2-19b"}, "--like: cannot be combined with --model"}};
  for (const auto& [arguments, words] : mistakes) {
    const ProcessResult refused = RenderCommand(arguments);
    EXPECT_EQ(refused.exit_status, 2);
    EXPECT_THAT(refused.err, StartsWith(words));
  }
}

TEST(RenderTest, BadRequestsExitWithTwoAndOneLineThatNamesTheField) {
  const std::pair<Arguments, const char*> mistakes[] = {
      {{"--width", "65"}, "width"},
      {{"--frames", "10"}, "num_frames"},
      {{"--recipe", "HQ"}, "recipe: HQ needs the upsampler, which this model was loaded without"},
      {{"--video-guidance", "{\"stgBlocks\": [77]}"}, "video_guidance.stg_blocks[0]: 77 is not a block"},
      {{"--recipe", "ONE_STAGE", "--schedule-tokens", "300000"}, "schedule_tokens: with 300000 tokens"},
      {{"--lora", "style"}, "loras[0].id: style: this model was loaded without LoRAs"},
      {{"--device", "tpu"}, "--device: tpu: cpu or cuda is needed"},
      {{"--noise", kSource + "/models/tiny/ltx-2.3-tiny-dev.safetensors"}, "video_noise"},
      {{"--model", "/nonexistent.safetensors"}, "/nonexistent.safetensors"},
      {{"--model", kSource + "/README.md"}, "README.md"},
      {{"--prompt", "\xff\xfe"}, "prompt"},
      {{"--frame-rate", "nan"}, "--frame-rate"},
      {{"--unknown"}, "--unknown"},
  };
  for (const auto& [arguments, words] : mistakes) {
    const std::string output = TempPath("never.mp4");
    const ProcessResult result =
        RenderCommand(TinyModel() + kSmall + Arguments{"--quiet", "--output", output} + arguments);
    EXPECT_EQ(result.exit_status, 2) << words << ": " << result.err;
    EXPECT_THAT(result.err, HasSubstr(words));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_NE(access(output.c_str(), F_OK), 0);
  }
}

TEST(RenderTest, AnInterruptEndsTheRunAndLeavesNoFile) {
  const std::string output = TempPath("interrupted.mp4");
  Subprocess render({KINORA_RENDER, "--model", TinyModel()[1], "--model", TinyModel()[3], "--prompt", "a", "--width",
                     "128", "--height", "128", "--frames", "17", "--steps", "200", "--recipe", "ONE_STAGE", "--output",
                     output});
  while (render.ErrSoFar().find("denoise ") == std::string::npos) std::this_thread::yield();
  kill(render.pid(), SIGINT);
  const ProcessResult result = render.Wait();
  EXPECT_EQ(result.exit_status, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("interrupted"));
  EXPECT_NE(access(output.c_str(), F_OK), 0);
  EXPECT_THAT(PartFiles(output), testing::IsEmpty());
}

}  // namespace
}  // namespace kinora
