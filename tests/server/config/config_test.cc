#include "server/config/config.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "google/protobuf/text_format.h"
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
  const auto refused = [&](const std::vector<std::string>& arguments, auto message) {
    EXPECT_THAT(ParseConfig(arguments, config), StatusIs(absl::StatusCode::kInvalidArgument, message));
  };
  refused({"--que=1"}, HasSubstr("--que"));
  refused({"--queue-capacity=many"}, AllOf(HasSubstr("--queue-capacity"), HasSubstr("many")));
  refused({"--queue-capacity=99999999999"}, HasSubstr("--queue-capacity"));
  refused({"--queue-capacity"}, HasSubstr("--queue-capacity"));
  refused({"--insecure=maybe"}, HasSubstr("--insecure"));
  refused({"--insecure="}, HasSubstr("--insecure"));  // as from a variable that is not set
  refused({"serve"}, HasSubstr("serve"));
  refused({"--config", directory.File("bad")}, HasSubstr("bad:2:4"));
  refused({"--config", directory.File("none")}, HasSubstr("none"));
}

TEST(Config, OnlyARegularFileIsReadAndAFifoHoldsUpNothing) {
  TemporaryDirectory directory;
  ASSERT_EQ(mkfifo(directory.File("fifo").c_str(), 0600), 0);
  v1::FrontendConfig config = DefaultFrontendConfig();
  for (const std::string& path : {directory.File("fifo"), directory.path()}) {
    EXPECT_THAT(ParseConfig({"--config", path}, config),
                StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("--config"), HasSubstr("regular file"))));
  }
}

TEST(Config, FlagsOfAConfigurationBuildItAgain) {
  v1::WorkerConfig config = DefaultWorkerConfig();
  config.add_model("models/a b");
  config.add_model("lora=x:\"quoted\".safetensors");
  config.set_threads(2);
  config.set_frontend("unix:/x/y.sock");
  config.mutable_tls()->set_ca_file("ca.pem");
  config.set_cuda_off("");  // overrides the environment, unlike an absent one
  config.set_cuda_synchronize(false);
  v1::WorkerConfig again = DefaultWorkerConfig();
  ASSERT_THAT(ParseConfig(ToFlags(config), again), IsOk());
  again.mutable_tls();
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(config, again)) << again.DebugString();

  v1::FrontendConfig frontend = DefaultFrontendConfig(), same = frontend;  // an unset web_address is not an empty one
  ASSERT_THAT(ParseConfig(ToFlags(frontend), same), IsOk());
  EXPECT_FALSE(same.has_web_address());
}

// A supervisor starts workers with these flags.
TEST(Config, FlagsOfTheCudaBackendReachTheWorkersThatAFrontendStarts) {
  v1::FrontendConfig config = DefaultFrontendConfig();
  EXPECT_THAT(ToFlags(config.worker()), testing::Not(testing::Contains(HasSubstr("--cuda"))));
  ASSERT_THAT(ParseConfig({"--worker-model=m", "--worker-cuda-off=graphs,branch", "--worker-cuda-synchronize"}, config),
              IsOk());
  EXPECT_THAT(ToFlags(GroupsOf(config)[0].worker()),
              testing::IsSupersetOf({"--cuda-off=graphs,branch", "--cuda-synchronize=true"}));
}

const FlagSpec* Shown(const google::protobuf::Message& config, const std::string& name) {
  for (const FlagSpec& flag : ConfigFlags(config)) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

TEST(Config, HelpIsTheCommentAboveTheField) {
  const v1::FrontendConfig frontend = DefaultFrontendConfig();
  const auto help = [&](const std::string& name) { return std::string(Shown(frontend, name)->help); };
  EXPECT_EQ(help("queue-capacity"),
            "the maximum number of waiting jobs; default: 1000. Further jobs are rejected with RESOURCE_EXHAUSTED");
  EXPECT_EQ(help("join-tls-key-file"), "the server's private key, in PEM format. For join_address");
  EXPECT_THAT(help("worker-model"), HasSubstr("as in kinora-render's --model. Repeatable"));
  EXPECT_EQ(Shown(frontend, "store")->value, "sqlite|memory|URL");
  EXPECT_EQ(Shown(frontend, "min-free-bytes")->value, "SIZE");
  for (const google::protobuf::Message* config :
       std::initializer_list<const google::protobuf::Message*>{&frontend, &v1::WorkerConfig::default_instance()}) {
    for (const FlagSpec& flag : ConfigFlags(*config)) EXPECT_GE(flag.help.size(), 4u) << flag.name;
  }
}

TEST(Config, HelpLeavesOutWhatOthersThanTheOperatorSet) {
  const v1::FrontendConfig frontend = DefaultFrontendConfig();
  const v1::WorkerConfig worker = DefaultWorkerConfig();
  EXPECT_NE(Shown(frontend, "worker-ranks"), nullptr);
  for (const char* name : {"rank", "world-size", "frontend", "token-file", "tls-ca-file", "scratch-directory"}) {
    EXPECT_NE(Shown(worker, name), nullptr) << name;
    EXPECT_EQ(Shown(frontend, absl::StrCat("worker-", name)), nullptr) << name;
  }
  for (const char* name : {"lifeline-fd", "secret-fd", "incarnation"}) EXPECT_EQ(Shown(worker, name), nullptr) << name;
}

TEST(Config, SecondsAndBytesMayHaveUnits) {
  v1::FrontendConfig config = DefaultFrontendConfig();
  ASSERT_THAT(ParseConfig({"--default-ttl-seconds=1d12h", "--min-free-bytes", "2 GiB", "--lease-seconds=7.5"}, config),
              IsOk());
  EXPECT_EQ(config.default_ttl_seconds(), 36 * 3600);
  EXPECT_EQ(config.min_free_bytes(), int64_t{2} << 30);
  EXPECT_EQ(config.lease_seconds(), 7.5);
  EXPECT_FALSE(ParseConfig({"--queue-capacity=2k"}, config).ok());
  EXPECT_FALSE(ParseConfig({"--worker-memory-share=1d"}, config).ok());
  EXPECT_THAT(ParseConfig({"--quue-capacity=2"}, config).status().message(), HasSubstr("--queue-capacity"));
}

TEST(Config, HelpAndVersionNeedNoFileToBeThere) {
  v1::FrontendConfig config = DefaultFrontendConfig();
  EXPECT_TRUE(ParseConfig({"--config=/nowhere", "-h"}, config)->help);
  EXPECT_TRUE(ParseConfig({"--config=/nowhere", "--version"}, config)->version);
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

// Names are resolved and all of their addresses checked. Looking like loopback is not enough.
TEST(CheckFrontendConfig, AddressesAreJudgedOneByOne) {
  for (const char* address : {"0.0.0.0:8480", "127.0.0.1:8480,0.0.0.0:8481", "127.0.0.1.nip.io.invalid:8480", "8480",
                              "[::ffff:10.0.0.1]:8480"}) {
    v1::FrontendConfig config = DefaultFrontendConfig();
    config.set_http_address(address);
    EXPECT_THAT(CheckFrontendConfig(config), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("http_address")))
        << address;
    config = DefaultFrontendConfig();
    config.set_admin_address(address);
    EXPECT_THAT(CheckFrontendConfig(config), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("admin_address")))
        << address;
  }
  v1::FrontendConfig config = DefaultFrontendConfig();
  config.set_address("127.1:8470");
  config.set_admin_address("localhost:8471");
  config.set_http_address("[::1]:8480");
  config.set_web_address("unix:page.sock");
  EXPECT_THAT(CheckFrontendConfig(config), IsOk());
  config.set_web_address("0.0.0.0:8472");
  EXPECT_THAT(CheckFrontendConfig(config), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("web_address")));
  config.set_http_address("0.0.0.0:8480");  // probes use the pod's network
  config.set_insecure(true);
  EXPECT_THAT(CheckFrontendConfig(config), IsOk());
}

// With only a client CA the port would be unencrypted, although its operator expects client certificates.
TEST(CheckFrontendConfig, FilesOfTlsAreRefusedWhereTheyHaveNoEffect) {
  const std::pair<std::vector<std::string>, const char*> wrong[] = {
      {{"--tls-client-ca-file=ca"}, "tls.client_ca_file: has no effect without tls.certificate_file"},
      {{"--tls-key-file=k"}, "tls.key_file: has no effect without tls.certificate_file"},
      {{"--tls-key-file=k", "--tls-client-ca-file=ca", "--insecure"}, "tls.client_ca_file: has no effect without"},
      {{"--tls-certificate-file=c", "--tls-client-ca-file=ca"}, "tls.key_file: must be set together"},
  };
  for (const auto& [flags, message] : wrong) {
    v1::FrontendConfig config = DefaultFrontendConfig();
    ASSERT_THAT(ParseConfig(flags, config), IsOk());
    EXPECT_THAT(CheckFrontendConfig(config), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  }
}

// Workers' pages show the same data as the frontend's and follow the same rule.
TEST(CheckFrontendConfig, PagesOfWorkersAreForThisMachineUnlessItSaysInsecure) {
  for (const auto& [text, field] :
       {std::pair{"worker { model: 'm' http_address: '0.0.0.0:8481' }", "worker.http_address: "},
        {"groups { id: 'a' worker { model: 'm' http_address: '[::]:0' } }", "groups[0].worker.http_address: "}}) {
    v1::FrontendConfig config = DefaultFrontendConfig();
    ASSERT_TRUE(google::protobuf::TextFormat::MergeFromString(text, &config));
    EXPECT_THAT(CheckFrontendConfig(config), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(field)));
    config.set_insecure(true);
    EXPECT_THAT(CheckFrontendConfig(config), IsOk());
  }
}

TEST(CheckFrontendConfig, ListsEveryFieldThatIsWrong) {
  v1::FrontendConfig config = DefaultFrontendConfig();
  config.set_queue_capacity(0);
  config.set_lease_seconds(std::nan(""));
  config.set_store("postgres");
  EXPECT_THAT(CheckFrontendConfig(config),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("queue_capacity"), HasSubstr("lease_seconds"),
                             HasSubstr("store: \"postgres\" is not one of sqlite, memory, postgresql://"))));
}

TEST(CheckFrontendConfig, TheWaitBeforeAPreemptionIsFiniteAndNoneByDefault) {
  v1::FrontendConfig config = DefaultFrontendConfig();
  EXPECT_EQ(config.preempt_after_seconds(), 0);
  for (const double seconds : {-1.0, std::nan(""), HUGE_VAL}) {
    config.set_preempt_after_seconds(seconds);
    EXPECT_THAT(CheckFrontendConfig(config),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("preempt_after_seconds")))
        << seconds;
  }
  config.set_preempt_after_seconds(90);
  EXPECT_THAT(CheckFrontendConfig(config), IsOk());
}

TEST(CheckFrontendConfig, AnIntervalOfNearlyNothingIsRejected) {
  for (const char* field : {"sweep_interval_seconds", "heartbeat_interval_seconds", "lease_seconds",
                            "worker_step_floor_seconds", "worker_heartbeat_timeout_seconds",
                            "group_join_timeout_seconds", "upload_idle_seconds", "download_idle_seconds"}) {
    v1::FrontendConfig config = DefaultFrontendConfig();
    const auto* descriptor = config.GetDescriptor()->FindFieldByName(field);
    for (const double seconds : {1e-9, 0.0099, 0.0, -1.0, HUGE_VAL, std::nan("")}) {
      config.GetReflection()->SetDouble(&config, descriptor, seconds);
      EXPECT_THAT(CheckFrontendConfig(config), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(field)))
          << seconds;
    }
    config.GetReflection()->SetDouble(&config, descriptor, 0.01);
    EXPECT_THAT(CheckFrontendConfig(config), IsOk()) << field;
  }
}

TEST(CheckFrontendConfig, FieldsOfAWorkerWithoutAModelHaveNoEffectAndAreRejected) {
  for (const auto& [text, field] :
       {std::pair{"worker { memory_share: 7 }", "worker.memory_share: "},
        {"worker { device: 'abacus' }", "worker.device: "},
        {"worker { http_address: 'nowhere' }", "worker.http_address: "},
        {"worker { threads: -3 }", "worker.threads: "},
        {"worker { model: 'm' checkpoint_seconds: -1 }", "worker.checkpoint_seconds: -1 must be a number"},
        {"groups { id: 'a' worker { model: 'm' checkpoint_seconds: inf } }",
         "groups[0].worker.checkpoint_seconds: inf"},
        {"worker { model: 'm' checkpoint_seconds: nan }", "worker.checkpoint_seconds: nan"},
        {"worker { lora_cache_bytes: 7 } groups { id: 'a' worker { model: 'm' } }", "worker.lora_cache_bytes: "}}) {
    v1::FrontendConfig config = DefaultFrontendConfig();
    ASSERT_TRUE(google::protobuf::TextFormat::MergeFromString(text, &config));
    EXPECT_THAT(CheckFrontendConfig(config), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(field))) << text;
  }
  v1::FrontendConfig config = DefaultFrontendConfig();
  config.mutable_worker()->set_http_address("");  // disables all workers' pages
  EXPECT_THAT(CheckFrontendConfig(config), IsOk());
  ASSERT_TRUE(google::protobuf::TextFormat::MergeFromString("worker { model: 'm' memory_share: 7 }", &config));
  EXPECT_THAT(CheckFrontendConfig(config),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("worker.memory_share: ")));
}

TEST(CheckFrontendConfig, AnInputThatExceedsTheQuotaOfAllCouldNeverBeTaken) {
  v1::FrontendConfig config = DefaultFrontendConfig();
  config.set_max_input_bytes(2000);
  config.set_input_quota_bytes(2000);
  EXPECT_THAT(CheckFrontendConfig(config), IsOk());
  config.set_max_input_bytes(2001);
  EXPECT_THAT(CheckFrontendConfig(config),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("max_input_bytes"), HasSubstr("input_quota_bytes"))));
}

v1::FrontendConfig WithGroups(const std::string& text) {
  v1::FrontendConfig config = DefaultFrontendConfig();
  EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(text, &config)) << text;
  return config;
}

TEST(Groups, TheFieldWorkerIsOneGroup) {
  EXPECT_TRUE(GroupsOf(DefaultFrontendConfig()).empty());
  const v1::FrontendConfig config = WithGroups("worker { model: 'a' group: 'g' precision: 'f32' http_address: '' }");
  ASSERT_THAT(CheckFrontendConfig(config), IsOk());
  const std::vector<v1::GroupConfig> groups = GroupsOf(config);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].id(), "g");
  EXPECT_EQ(groups[0].processes(), 1);
  EXPECT_EQ(groups[0].worker().precision(), "f32");
  EXPECT_EQ(groups[0].worker().http_address(), "");  // no pages, as requested
}

TEST(Groups, EachHasItsDefaultsItsIdAndAPortOfItsOwn) {
  const v1::FrontendConfig config = WithGroups(
      "groups { id: 'a' worker { model: 'm' } } groups { id: 'b' worker { model: 'n' precision: 'f32' } processes: 1 "
      "}");
  ASSERT_THAT(CheckFrontendConfig(config), IsOk());
  const std::vector<v1::GroupConfig> groups = GroupsOf(config);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].worker().group(), "a");
  EXPECT_EQ(groups[1].worker().group(), "b");
  EXPECT_EQ(groups[0].worker().precision(), "bf16");
  EXPECT_EQ(groups[1].worker().precision(), "f32");
  EXPECT_EQ(groups[0].worker().http_address(), "127.0.0.1:8481");
  EXPECT_EQ(groups[1].worker().http_address(), "127.0.0.1:8482");
  for (const v1::GroupConfig& group : groups) {
    EXPECT_EQ(group.processes(), 1);
    EXPECT_EQ(group.worker().world_size(), 1);
    EXPECT_EQ(group.worker().memory_share(), 0.5);  // one machine: each plans with its share of the memory
  }
}

TEST(Groups, AnEmptyAddressMeansNoPagesAndAShareIsKept) {
  const v1::FrontendConfig config = WithGroups(
      "groups { id: 'a' worker { model: 'm' http_address: '' memory_share: 0.75 } } groups { id: 'b' worker { model: "
      "'n' http_address: '' memory_share: 0.25 } }");
  ASSERT_THAT(CheckFrontendConfig(config), IsOk());
  EXPECT_EQ(GroupsOf(config)[0].worker().http_address(), "");
  EXPECT_EQ(GroupsOf(config)[0].worker().memory_share(), 0.75);
}

TEST(Groups, WhatCannotBeIsRefusedByField) {
  const std::pair<const char*, const char*> wrong[] = {
      {"groups { id: 'a' worker { model: 'm' } processes: 2 }", "groups[0].worker.ranks: must be set"},
      {"groups { id: 'a' worker { model: 'm' } processes: -1 }", "groups[0].processes: must be"},
      {"groups { worker { model: 'm' } }", "groups[0].id"},
      {"groups { id: 'a b' worker { model: 'm' } }", "groups[0].id: \"a b\""},
      {"groups { id: 'a' worker { model: 'm' } } groups { id: 'a' worker { model: 'm' } }", "groups[1].id: \"a\" is"},
      {"groups { id: 'a' }", "groups[0].worker.model"},
      {"groups { id: 'a' worker { model: 'm' memory_share: 1.5 } }", "groups[0].worker.memory_share: 1.5"},
      {"groups { id: 'a' worker { model: 'm' http_address: '127.0.0.1:9' } } groups { id: 'b' worker { model: 'm' "
       "http_address: '127.0.0.1:9' } }",
       "groups: two groups have the same http_address, 127.0.0.1:9"},
      {"groups { id: 'a' worker { model: 'm' rank: 1 } }", "groups[0].worker.rank"},
      {"groups { id: 'a' worker { model: 'm' group: 'b' } }", "groups[0].worker.group"},
      {"groups { id: 'a' worker { model: 'm' token_file: 't' } }", "groups[0].worker.token_file: has no effect"},
      {"groups { id: 'a' outside: true worker { model: 'm' } }", "groups[0].worker: has no effect"},
      {"worker { model: 'm' } groups { id: 'a' worker { model: 'm' } }",
       "groups: cannot be combined with worker.model"},
      {"worker { model: 'm' rank: 1 }", "worker.rank: must be empty"},
      {"worker { model: 'm' secret_fd: 5 }", "worker.secret_fd: must be empty"},
      {"worker { model: 'm' incarnation: 'i' }", "worker.incarnation: must be empty"},
      {"worker { model: 'm' frontend: 'unix:s' }", "worker.frontend: must be empty"},
      {"worker { model: 'm' world_size: 2 }", "worker.world_size: is set by the frontend"},
  };
  for (const auto& [text, message] : wrong) {
    EXPECT_THAT(CheckFrontendConfig(WithGroups(text)), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)))
        << text;
  }
}

// If such settings were accepted but ignored, connections would be open that the operator believes to be protected.
TEST(CheckWorkerConfig, CredentialsThatNothingHeedsAreRefusedByField) {
  const auto frontend = [](const std::vector<std::string>& flags) {
    v1::FrontendConfig config = DefaultFrontendConfig();
    EXPECT_THAT(ParseConfig(flags, config), IsOk());
    return CheckFrontendConfig(config);
  };
  const auto worker = [](std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--frontend=unix:s", "--model=m"});
    v1::WorkerConfig config = DefaultWorkerConfig();
    EXPECT_THAT(ParseConfig(flags, config), IsOk());
    return CheckWorkerConfig(config);
  };
  EXPECT_THAT(frontend({"--worker-tls-certificate-file="}), IsOk());  // like the frontend's own flags
  EXPECT_THAT(worker({"--tls-certificate-file=", "--token-file=", "--scratch-directory=f"}), IsOk());
  EXPECT_THAT(frontend({"--worker-scratch-directory=f"}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(frontend({"--worker-scratch-directory=f", "--artifacts=s3://clips"}), IsOk());
  for (const std::string field : {"tls.certificate_file", "tls.key_file", "tls.ca_file", "token_file"}) {
    const std::string flag = absl::StrReplaceAll(field, {{".", "-"}, {"_", "-"}});
    EXPECT_THAT(
        frontend({absl::StrCat("--worker-", flag, "=f")}),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(absl::StrCat("worker.", field, ": has no effect"))));
    EXPECT_THAT(worker({absl::StrCat("--", flag, "=f")}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(absl::StrCat(field, ": has no effect"))));
  }
}

TEST(CheckWorkerConfig, WhatAJoinPortAsksForIsTakenTowardOneAndWholeOnly) {
  const auto check = [](std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--frontend=frontend:8471", "--model=m"});
    v1::WorkerConfig config = DefaultWorkerConfig();
    EXPECT_THAT(ParseConfig(flags, config), IsOk());
    return CheckWorkerConfig(config);
  };
  EXPECT_THAT(check({"--token-file=t"}), IsOk());
  EXPECT_THAT(check({"--tls-ca-file=ca", "--tls-certificate-file=c", "--tls-key-file=k"}), IsOk());
  const auto refused = [](const char* field) { return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(field)); };
  EXPECT_THAT(check({"--tls-ca-file=ca", "--tls-certificate-file=c"}), refused("tls.key_file: "));
  EXPECT_THAT(check({"--tls-ca-file=ca", "--tls-key-file=k"}), refused("tls.certificate_file: "));
  EXPECT_THAT(check({"--tls-certificate-file=c", "--tls-key-file=k"}), refused("tls.ca_file: "));
}

TEST(CheckFrontendConfig, TheJoinPortNeverLetsAnybodyIn) {
  const auto check = [](const std::vector<std::string>& flags) {
    v1::FrontendConfig config = DefaultFrontendConfig();
    EXPECT_THAT(ParseConfig(flags, config), IsOk());
    return CheckFrontendConfig(config);
  };
  const std::string here = "--join-address=127.0.0.1:8471", everywhere = "--join-address=0.0.0.0:8471";
  const std::vector<std::string> tls = {"--join-tls-certificate-file=c", "--join-tls-key-file=k"};
  const auto with_tls = [&](std::vector<std::string> flags) {
    flags.insert(flags.end(), tls.begin(), tls.end());
    return check(flags);
  };
  EXPECT_THAT(check({here, "--join-token-file=t"}), IsOk());
  EXPECT_THAT(check({everywhere, "--insecure"}), IsOk());
  EXPECT_THAT(with_tls({everywhere, "--join-token-file=t"}), IsOk());
  EXPECT_THAT(with_tls({everywhere, "--join-tls-client-ca-file=a"}), IsOk());
  const auto refused = [](const char* field) { return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(field)); };
  EXPECT_THAT(check({here}), refused("join_token_file: must be set"));
  EXPECT_THAT(with_tls({everywhere}), refused("join_token_file: must be set"));
  EXPECT_THAT(check({everywhere, "--join-token-file=t"}), refused("join_address: \"0.0.0.0:8471\""));
  EXPECT_THAT(check({everywhere, "--join-token-file=t", "--join-tls-client-ca-file=a"}),
              refused("join_tls.client_ca_file: has no effect without"));
  EXPECT_THAT(check({"--join-address=unix:s", "--join-token-file=t"}), refused("join_address: must be host:port"));
  EXPECT_THAT(check({"--join-token-file=t"}), refused("join_token_file: has no effect without join_address"));
}

TEST(Groups, ThoseFromOutsideAreAwaitedAndNotStarted) {
  const v1::FrontendConfig config = WithGroups(
      "groups { id: 'a' outside: true processes: 4 } groups { id: 'b' worker { model: 'm' } } groups { id: "
      "'c' outside: true }");
  ASSERT_THAT(CheckFrontendConfig(config), IsOk());
  ASSERT_EQ(GroupsOf(config).size(), 1u);
  EXPECT_EQ(GroupsOf(config)[0].id(), "b");
  EXPECT_EQ(GroupsOf(config)[0].worker().memory_share(), 1);
  EXPECT_THAT(OutsideGroupsOf(config), ElementsAre(testing::Pair("a", 4), testing::Pair("c", 1)));
}

TEST(WebAddressOf, TheDefaultIsForFrontendsThatStartAWorker) {
  v1::FrontendConfig config = DefaultFrontendConfig();
  config.set_state_directory("/s");
  EXPECT_EQ(WebAddressOf(config), "");
  EXPECT_EQ(GatewaySocketOf(config), "");
  EXPECT_EQ(WebAddressOf(WithGroups("groups { id: 'a' outside: true }")), "");
  config.mutable_worker()->add_model("m");
  EXPECT_EQ(WebAddressOf(config), "127.0.0.1:8472");
  EXPECT_EQ(GatewaySocketOf(config), "unix:/s/gateway.sock");
  ASSERT_THAT(ParseConfig({"--web-address="}, config), IsOk());
  EXPECT_EQ(WebAddressOf(config), "");
  EXPECT_EQ(GatewaySocketOf(config), "");
  config = DefaultFrontendConfig();
  ASSERT_THAT(ParseConfig({"--web-address=[::1]:80"}, config), IsOk());
  EXPECT_EQ(WebAddressOf(config), "[::1]:80");
}

TEST(HttpAddressOf, RanksOfAHostHavePortsInARow) {
  v1::WorkerConfig config = DefaultWorkerConfig();
  EXPECT_EQ(HttpAddressOf(config), "127.0.0.1:8481");
  config.set_rank(3);
  EXPECT_EQ(HttpAddressOf(config), "127.0.0.1:8484");
  config.set_http_address("127.0.0.1:0");  // the system chooses
  EXPECT_EQ(HttpAddressOf(config), "127.0.0.1:0");
  config.set_http_address("");
  EXPECT_EQ(HttpAddressOf(config), "");
}

TEST(CheckWorkerConfig, ARankIsOneOfItsGroup) {
  v1::WorkerConfig config = DefaultWorkerConfig();
  EXPECT_THAT(CheckWorkerConfig(config),
              StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("frontend: "), HasSubstr("model: "))));
  config.set_frontend("unix:s");
  config.add_model("m");
  EXPECT_THAT(CheckWorkerConfig(config), IsOk());
  config.set_rank(1);
  EXPECT_THAT(CheckWorkerConfig(config), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rank: 1")));
  config.set_world_size(2);
  EXPECT_THAT(CheckWorkerConfig(config), IsOk());
  config.set_world_size(0);
  EXPECT_THAT(CheckWorkerConfig(config), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("world_size: 0")));
}

}  // namespace
}  // namespace kinora
