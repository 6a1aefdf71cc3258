#include "server/gateway/video_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <set>
#include <string>

#include "server/common/status_details.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr char kBearer[] = "Bearer 0123456789abcdef";
const LinkTarget kClip = {.video_id = "abc-1", .variant = kDefaultVariant};

class VideoLinkTest : public testing::Test {
 protected:
  void ExpectRejected(const LinkSealer& sealer, const std::string& text, const LinkTarget& target,
                      const std::string& reason = "LINK_INVALID") {
    const auto opened = sealer.Open(text, target);
    EXPECT_THAT(opened.status(), StatusIs(absl::StatusCode::kUnauthenticated, EndsWith("/link makes a new one")))
        << text;
    EXPECT_EQ(ErrorReason(opened.status()), reason);
  }

  FakeClock clock_;
  const LinkSealer sealer_{std::string(32, 'k'), clock_};
};

TEST_F(VideoLinkTest, CarriesTheAuthorizationUnreadably) {
  for (const std::string& authorization : {std::string(kBearer), std::string(), std::string(4096, 'x')}) {
    const VideoLink link = sealer_.Seal(kClip, authorization);
    EXPECT_THAT(sealer_.Open(link.text, kClip), IsOkAndHolds(authorization));
    EXPECT_EQ(link.text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"),
              std::string::npos);
    EXPECT_THAT(link.text, Not(HasSubstr("0123456789abcdef")));
  }
}

TEST_F(VideoLinkTest, TwoLinksToOneClipDiffer) {
  std::set<std::string> beginnings;
  for (int i = 0; i < 100; ++i) beginnings.insert(sealer_.Seal(kClip, kBearer).text.substr(0, 40));
  EXPECT_EQ(beginnings.size(), 100u);
}

TEST_F(VideoLinkTest, ExpiresAfterItsLifetime) {
  const VideoLink link = sealer_.Seal(kClip, kBearer);
  EXPECT_EQ(link.expiry, clock_.Now() + absl::Minutes(10));
  clock_.Advance(kLinkLifetime - absl::Milliseconds(1));
  EXPECT_THAT(sealer_.Open(link.text, kClip), IsOkAndHolds(kBearer));
  clock_.Advance(absl::Milliseconds(1));
  ExpectRejected(sealer_, link.text, kClip, "LINK_EXPIRED");
}

TEST_F(VideoLinkTest, OpensNothingElse) {
  const std::string text = sealer_.Seal(kClip, kBearer).text;
  ExpectRejected(sealer_, text, {.video_id = "abc-2", .variant = kDefaultVariant});
  ExpectRejected(sealer_, text, {.video_id = kClip.video_id, .variant = "thumbnail"});
  ExpectRejected(sealer_, text, {.video_id = "abc-", .variant = "1video"});
}

TEST_F(VideoLinkTest, AnyChangeMakesItInvalid) {
  const std::string text = sealer_.Seal(kClip, kBearer).text;
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    ExpectRejected(sealer_, changed, kClip);
    ExpectRejected(sealer_, text.substr(0, i), kClip);
  }
  for (const char* added : {"A", "=", "AAAA", "\n", " ", "%", "\xff"}) ExpectRejected(sealer_, text + added, kClip);
  ExpectRejected(sealer_, std::string(10'000, 'A'), kClip);
}

TEST_F(VideoLinkTest, OnlyGatewaysWithTheSameKeyAcceptIt) {
  const std::string text = sealer_.Seal(kClip, kBearer).text;
  EXPECT_THAT(LinkSealer(std::string(32, 'k'), clock_).Open(text, kClip), IsOkAndHolds(kBearer));
  ExpectRejected(LinkSealer(std::string(32, 'K'), clock_), text, kClip);
  ExpectRejected(LinkSealer(std::string(33, 'k'), clock_), text, kClip);
}

class LinkKeyFileTest : public testing::Test {
 protected:
  std::string Write(const std::string& bytes, mode_t mode) {
    std::string path = folder_.File("key");
    WriteFile(path, bytes);
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }

  TemporaryDirectory folder_;
};

TEST_F(LinkKeyFileTest, ReadsAFileThatOthersCannot) {
  const std::string key = std::string(31, 'k') + "\n";
  EXPECT_THAT(LoadLinkKey(Write(key, 0640)), IsOkAndHolds(key));
}

TEST_F(LinkKeyFileTest, DrawsAKeyWithoutAFile) {
  const auto key = LoadLinkKey(""), other = LoadLinkKey("");
  ASSERT_TRUE(key.ok() && other.ok());
  EXPECT_EQ(key->size(), LinkSealer::kKeyBytes);
  EXPECT_NE(*key, *other);
}

TEST_F(LinkKeyFileTest, RejectsAWeakFileAndSaysWhatToDo) {
  const std::string readable = Write(std::string(32, 'k'), 0644);
  EXPECT_THAT(LoadLinkKey(readable).status(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("chmod o=")));
  const std::string small = Write(std::string(31, 'k'), 0600);
  EXPECT_THAT(LoadLinkKey(small).status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("openssl rand")));
  EXPECT_THAT(LoadLinkKey(small + "-none").status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("key-none")));
  EXPECT_THAT(LoadLinkKey(folder_.path()).status(), StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace kinora
