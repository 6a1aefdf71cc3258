#include "server/common/config.h"

#include <gtest/gtest.h>

#include "google/protobuf/util/message_differencer.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Config, FlagsWinOverTheFileAndTheFileOverDefaults) {
  TemporaryDirectory directory;
  WriteFile(directory.File("k.textproto"),
            "address: \"127.0.0.1:1\" queue_capacity: 7 worker { model: \"a\" model: \"b\" threads: 3 }");
  v1::FrontendConfig config = DefaultFrontendConfig();
  KINORA_ASSERT_OK_AND_ASSIGN(const ConfigCommand command,
                              ParseConfig({"--queue-capacity=9", "--config", directory.File("k.textproto"),
                                           "--worker-model", "c", "--insecure", "--worker-model=d"},
                                          config));
  EXPECT_FALSE(command.check);
  EXPECT_EQ(config.address(), "127.0.0.1:1");
  EXPECT_EQ(config.queue_capacity(), 9);
  EXPECT_EQ(config.worker().threads(), 3);
  EXPECT_TRUE(config.insecure());
  EXPECT_THAT(config.worker().model(), ElementsAre("c", "d"));
  EXPECT_EQ(config.max_lost_groups(), 2);  // default
}

TEST(Config, ZeroAndEmptyAreValuesThatAFileCanSet) {
  TemporaryDirectory directory;
  WriteFile(directory.File("k"), "disconnect_grace_seconds: 0 http_address: ''");
  v1::FrontendConfig config = DefaultFrontendConfig();
  ASSERT_THAT(ParseConfig({"--config=" + directory.File("k")}, config), IsOk());
  EXPECT_EQ(config.disconnect_grace_seconds(), 0);
  EXPECT_EQ(config.http_address(), "");
}

TEST(Config, ErrorsNameTheFlagOrThePlaceInTheFile) {
  TemporaryDirectory directory;
  WriteFile(directory.File("bad"), "queue_capacity: 1\nque: 2");
  v1::FrontendConfig config = DefaultFrontendConfig();
  const auto refused = [&](std::vector<std::string> arguments, auto message) {
    EXPECT_THAT(ParseConfig(arguments, config), StatusIs(absl::StatusCode::kInvalidArgument, message));
  };
  refused({"--que=1"}, HasSubstr("--que"));
  refused({"--queue-capacity=many"}, AllOf(HasSubstr("--queue-capacity"), HasSubstr("many")));
  refused({"--queue-capacity=99999999999"}, HasSubstr("--queue-capacity"));
  refused({"--queue-capacity"}, HasSubstr("--queue-capacity"));
  refused({"--insecure=maybe"}, HasSubstr("--insecure"));
  refused({"serve"}, HasSubstr("serve"));
  refused({"--config", directory.File("bad")}, HasSubstr("bad:2:4"));
  refused({"--config", directory.File("none")}, HasSubstr("none"));
}

TEST(Config, FlagsOfAConfigurationBuildItAgain) {
  v1::WorkerConfig config = DefaultWorkerConfig();
  config.add_model("models/a b");
  config.add_model("lora=x:\"quoted\".safetensors");
  config.set_threads(2);
  config.set_frontend("unix:/x/y.sock");
  config.mutable_tls()->set_client_ca_file("ca.pem");
  v1::WorkerConfig again = DefaultWorkerConfig();
  ASSERT_THAT(ParseConfig(ToFlags(config), again), IsOk());
  again.mutable_tls();
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(config, again)) << again.DebugString();
}

TEST(Config, EveryFlagHasALineOfHelp) {
  const std::string help = FlagHelp(DefaultFrontendConfig());
  EXPECT_THAT(help, AllOf(HasSubstr("--worker-model string (repeatable)"), HasSubstr("--queue-capacity int32 [1000]"),
                          HasSubstr("--tls-key-file"), HasSubstr("--check-config")));
}

TEST(CheckFrontendConfig, AcceptsTheDefaults) { EXPECT_THAT(CheckFrontendConfig(DefaultFrontendConfig()), IsOk()); }

TEST(CheckFrontendConfig, AnOpenListenerNeedsTlsAndTokensOrSaysInsecure) {
  v1::FrontendConfig config = DefaultFrontendConfig();
  config.set_address("0.0.0.0:8470");
  EXPECT_THAT(CheckFrontendConfig(config), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("address")));
  config.mutable_tls()->set_certificate_file("c");
  config.mutable_tls()->set_key_file("k");
  EXPECT_FALSE(CheckFrontendConfig(config).ok());  // no tokens
  config.set_token_file("t");
  EXPECT_THAT(CheckFrontendConfig(config), IsOk());
  config.clear_tls();
  config.clear_token_file();
  config.set_insecure(true);
  EXPECT_THAT(CheckFrontendConfig(config), IsOk());
}

TEST(CheckFrontendConfig, ListsEveryFieldThatIsWrong) {
  v1::FrontendConfig config = DefaultFrontendConfig();
  config.set_queue_capacity(0);
  config.set_lease_seconds(std::nan(""));
  config.set_job_store("postgres");
  EXPECT_THAT(CheckFrontendConfig(config),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("queue_capacity"), HasSubstr("lease_seconds"), HasSubstr("job_store"))));
}

}  // namespace
}  // namespace kinora
