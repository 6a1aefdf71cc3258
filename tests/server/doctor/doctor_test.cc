#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "server/client/doctor_command.h"
#include "server/doctor/doctor_checks.h"
#include "server/doctor/doctor_report.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using State = Finding::State;

TEST(DoctorReport, PutsWhatToDoUnderWhatIsWrongAndCounts) {
  const std::vector<Finding> findings = {{State::kOk, "cpu", "AVX2", ""},
                                         {State::kWarning, "disk", "little", "make room"},
                                         {State::kFailed, "port", "taken", "take another"}};
  EXPECT_EQ(DoctorText(findings),
            "ok       cpu            AVX2\n"
            "warning  disk           little\n"
            "                        make room\n"
            "failed   port           taken\n"
            "                        take another\n"
            "1 failed, 1 warning, 1 ok\n");
  EXPECT_TRUE(AnyFailed(findings));
  EXPECT_FALSE(AnyFailed({findings[0], findings[1]}));
  const auto json = nlohmann::json::parse(DoctorJson(findings));
  EXPECT_EQ(json["failed"], 1);
  EXPECT_EQ(json["checks"][2]["state"], "failed");
  EXPECT_EQ(json["checks"][2]["fix"], "take another");
}

// The library answers as cuDNN 9.10 does.
TEST(DoctorCuda, ACudnnThatComputesWrongConvolutionsIsTooOld) {
  EXPECT_EQ(WhyUnusable(KINORA_OLD_CUDNN), std::string(KINORA_OLD_CUDNN) + ": is cuDNN 9.10, older than 9.15");
  EXPECT_THAT(WhyUnusable("libcudnn.so.nowhere"), HasSubstr("libcudnn.so.nowhere"));
  EXPECT_EQ(WhyUnusable("libc.so.6"), "");
}

class DoctorModel : public testing::Test {
 protected:
  // Writes a safetensors file that ends after a header with one tensor.
  void Write(const std::string& name, const std::string& tensor) const {
    const std::string header = "{\"" + tensor + "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
    const uint64_t bytes = header.size();
    WriteFile(directory_.File(name), std::string(reinterpret_cast<const char*>(&bytes), sizeof(bytes)) + header);
  }

  TemporaryDirectory directory_;
};

TEST_F(DoctorModel, IsTheOneFileWithATransformerAndTheTextEncoderBesideIt) {
  EXPECT_THAT(ModelAt(directory_.path()), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no .safetensors")));
  Write("dev.safetensors", "model.diffusion_model.proj_out.weight");
  Write("lora.safetensors", "diffusion_model.proj_out.lora_A.weight");
  Write("upscaler.safetensors", "final_conv.bias");
  std::filesystem::create_directory(directory_.File("gemma"));
  WriteFile(directory_.File("gemma/tokenizer.model"), "");
  const std::string dev = directory_.File("dev.safetensors");
  EXPECT_THAT(ModelAt(directory_.path()), IsOkAndHolds(ElementsAre(dev, "text_encoder=" + directory_.File("gemma"))));
  EXPECT_THAT(ModelAt(dev), IsOkAndHolds(ElementsAre(dev)));
  Write("distilled.safetensors", "model.diffusion_model.proj_out.weight");
  EXPECT_THAT(ModelAt(directory_.path()), StatusIs(absl::StatusCode::kInvalidArgument,
                                                   AllOf(HasSubstr("several models"), HasSubstr("distilled.safe"))));
  WriteFile(directory_.File("model_index.json"), "{}");  // a diffusers folder is a single model
  EXPECT_THAT(ModelAt(directory_.path()), IsOkAndHolds(ElementsAre(directory_.path())));
}

}  // namespace
}  // namespace kinora
