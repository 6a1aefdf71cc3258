// A frontend's files: those named in its configuration, and those that it keeps while it runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "absl/strings/str_replace.h"
#include "server/common/status_details.h"
#include "tests/server/frontend/frontend_fixture.h"
#include "tests/testing/certificates.h"
#include "tests/testing/raw_call.h"

namespace kinora {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Returns all fields that name a file: "tls.key_file", "worker.token_file", …
std::vector<std::string> FileFields(const google::protobuf::Descriptor* type, const std::string& prefix = "") {
  std::vector<std::string> fields;
  for (int i = 0; i < type->field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = type->field(i);
    if (field->message_type() != nullptr && !field->is_repeated()) {
      for (std::string& inner : FileFields(field->message_type(), absl::StrCat(prefix, field->name(), "."))) {
        fields.push_back(std::move(inner));
      }
    } else if (field->name().ends_with("_file")) {
      fields.push_back(prefix + field->name());
    }
  }
  return fields;
}

// If such a field were ignored, something would be open that the operator believes to be protected.
TEST(FrontendFiles, EachFieldThatNamesAFileIsReadOrRefused) {
  const std::vector<std::string> fields = FileFields(v1::FrontendConfig::descriptor());
  EXPECT_THAT(fields, testing::IsSupersetOf({"tls.client_ca_file", "token_file", "admin_token_file",
                                             "worker.token_file", "worker.tls.key_file"}));
  for (const std::string& field : fields) {
    const std::string flag = "--" + absl::StrReplaceAll(field, {{".", "-"}, {"_", "-"}});
    v1::FrontendConfig config = DefaultFrontendConfig();
    ASSERT_THAT(ParseConfig({flag, "/nowhere/file"}, config), IsOk());
    absl::Status status = CheckFrontendConfig(config);
    if (status.ok()) status = CheckFrontendFiles(WithDerivedDefaults(config));
    std::vector<std::string> named;
    for (const FieldViolation& violation : Violations(status)) named.push_back(violation.field);
    const std::string wanted = field == "tls.certificate_file" ? "tls.key_file" : field;  // needs the key first
    EXPECT_THAT(named, testing::Contains(wanted)) << status;
  }
}

TEST_F(FrontendTest, AKeyOfAnotherCertificateIsNoFaultOfThePort) {
  WriteFile(directory_.File("cert"), MakeCertificate().certificate);
  WriteFile(directory_.File("key"), MakeCertificate().key);
  config_.mutable_tls()->set_certificate_file(directory_.File("cert"));
  config_.mutable_tls()->set_key_file(directory_.File("key"));
  EXPECT_THAT(Frontend::Start(config_), StatusIs(absl::StatusCode::kInvalidArgument,
                                                 AllOf(HasSubstr("tls.key_file: "), Not(HasSubstr("listen")))));
}

TEST_F(FrontendTest, OnceItsFilesAreGoneItTakesNoJobAndSaysSoToWhoAsksForItsHealth) {
  for (const char* lost : {"state/jobs.db", "state/artifacts", "state"}) {
    Start();
    const auto worker = StartWorker();
    KINORA_ASSERT_OK_AND_ASSIGN(const v1::Video before, Create(Request()));
    EXPECT_EQ(Health(channel_, "kinora.v1.VideoGeneration"), "SERVING");
    fs::rename(directory_.File(lost), directory_.File("lost"));
    const absl::Status refused = Create(Request()).status();
    EXPECT_THAT(refused, StatusIs(absl::StatusCode::kUnavailable, Not(HasSubstr(directory_.path())))) << lost;
    EXPECT_EQ(ErrorReason(refused), "STATE_LOST") << lost;
    EXPECT_EQ(Health(channel_, "kinora.v1.VideoGeneration"), "NOT_SERVING");
    EXPECT_THAT(HttpGet("/readyz"), HasSubstr("restarted"));
    EXPECT_THAT(Get(before.id()), IsOk());
    // Reports itself alive: a restart would destroy data that can still be saved.
    EXPECT_EQ(HttpGet("/livez"), "ok\n");
    EXPECT_EQ(Health(channel_, ""), "SERVING");
    frontend_.reset();
    fs::rename(directory_.File("lost"), directory_.File(lost));
  }
}

TEST_F(FrontendTest, AReadinessProbeAloneFindsOutThatItsFilesAreGone) {
  Start();
  const auto worker = StartWorker();
  EXPECT_EQ(HttpGet("/readyz"), "ok\n");
  fs::remove(directory_.File("state/jobs.db"));
  EXPECT_THAT(HttpGet("/readyz"), HasSubstr("restarted"));
  EXPECT_EQ(Health(channel_, "kinora.v1.VideoGeneration"), "NOT_SERVING");
}

TEST_F(FrontendTest, ShowsHowLongItsStoreCannotBeWritten) {
  Start();
  EXPECT_EQ(Metrics().at("kinora_job_store_unwritable_seconds"), 0);
}

}  // namespace
}  // namespace kinora
