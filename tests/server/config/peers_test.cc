// The fields of frontends that call each other.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "server/config/config.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

v1::FrontendConfig Config(const std::string& text) {
  v1::FrontendConfig config = DefaultFrontendConfig();
  KINORA_CHECK(google::protobuf::TextFormat::MergeFromString(text, &config)) << text;
  return config;
}

constexpr char kShared[] = "store: 'postgresql://db/jobs' artifacts: 's3://bucket/clips' ";
constexpr char kPeers[] = "peer_address: '127.0.0.1:8474' peer_token_file: 't' ";

TEST(PeerFields, AFrontendThatIsCalledNeedsAToken) {
  EXPECT_THAT(CheckFrontendConfig(Config(absl::StrCat(kShared, kPeers))), IsOk());
  EXPECT_THAT(CheckFrontendConfig(Config(absl::StrCat(kShared, "peer_address: '127.0.0.1:8474'"))),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("peer_token_file: must be set")));
}

TEST(PeerFields, MistakesNameTheirField) {
  for (const auto& [text, problem] : {
           std::pair{std::string(kPeers), "peer_address: has no effect unless store is a PostgreSQL database"},
           {absl::StrCat(kShared, "peer_address: '0.0.0.0:8474' peer_token_file: 't'"),
            "peer_address: \"0.0.0.0:8474\" is 0.0.0.0, which is not loopback: set peer_tls"},
           {absl::StrCat(kShared, "peer_address: '0.0.0.0:8474' insecure: true"),
            "advertise_peer_address: must be set to host:port, since others cannot dial peer_address"},
           {absl::StrCat(kShared, "peer_address: '127.0.0.1:0' peer_token_file: 't'"),
            "advertise_peer_address: must be set to host:port"},
           {absl::StrCat(kShared, kPeers, "advertise_peer_address: '[::]:1'"),
            "advertise_peer_address: \"[::]:1\" must be a host:port that others can dial"},
           {absl::StrCat(kShared, kPeers, "join_address: '0.0.0.0:8471' insecure: true"),
            "advertise_join_address: must be set to host:port, since others cannot dial join_address"},
           {absl::StrCat(kShared, "advertise_join_address: 'me:1'"),
            "advertise_join_address: has no effect without join_address"},
           {std::string("join_address: '127.0.0.1:8471' insecure: true advertise_join_address: 'me:1'"),
            "advertise_join_address: has no effect unless store is a PostgreSQL database"},
           {absl::StrCat(kShared, "advertise_peer_address: 'me:1'"),
            "advertise_peer_address: has no effect without peer_address"},
           {absl::StrCat(kShared, "peer_token_file: 't'"), "peer_token_file: has no effect without peer_address"},
           {absl::StrCat(kShared, kPeers, "peer_server_name: 'me'"),
            "peer_server_name: has no effect without peer_ca_file"},
           {absl::StrCat(kShared, kPeers, "peer_tls { certificate_file: 'c' key_file: 'k' }"),
            "peer_ca_file: peer_ca_file and peer_tls.certificate_file must be set together"},
           {absl::StrCat(kShared, kPeers, "peer_ca_file: 'a'"), "peer_tls.certificate_file: peer_ca_file and"},
           {absl::StrCat(kShared, kPeers, "peer_tls { certificate_file: 'c' }"),
            "peer_tls.key_file: must be set together"},
       }) {
    EXPECT_THAT(CheckFrontendConfig(Config(text)), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(problem)));
  }
}

TEST(PeerFields, OnlyAHostAndAPortCanBeAdvertised) {
  for (const char* address : {"me", "me:", ":1", "me:0", "me:65536", "https://me:1", "me:1/", "unix:/me", "::1:1"}) {
    EXPECT_THAT(CheckFrontendConfig(Config(absl::StrCat(kShared, kPeers, "advertise_peer_address: '", address, "'"))),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("must be a host:port that others can dial")))
        << address;
  }
  for (const char* address : {"me:1", "10.0.0.1:8474", "[::1]:8474", "me.example:65535"}) {
    EXPECT_THAT(CheckFrontendConfig(Config(absl::StrCat(kShared, kPeers, "advertise_peer_address: '", address, "'"))),
                IsOk())
        << address;
  }
}

TEST(PeerFields, OthersDialWhatIsAdvertised) {
  EXPECT_EQ(AdvertisedPeerAddress(Config("peer_address: 'a:1'")), "a:1");
  EXPECT_EQ(AdvertisedPeerAddress(Config("peer_address: 'a:1' advertise_peer_address: 'b:2'")), "b:2");
  EXPECT_EQ(AdvertisedJoinAddress(Config("join_address: 'a:1'")), "a:1");
  EXPECT_EQ(AdvertisedJoinAddress(Config("join_address: 'a:1' advertise_join_address: 'b:2'")), "b:2");
  EXPECT_EQ(AdvertisedJoinAddress(Config("join_address: '0.0.0.0:1'")), "") << "nobody can dial it";
  EXPECT_EQ(AdvertisedJoinAddress(Config("")), "");
}

}  // namespace
}  // namespace kinora
