#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "server/doctor/doctor_checks.h"
#include "server/doctor/doctor_report.h"

namespace kinora {
namespace {

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

}  // namespace
}  // namespace kinora
