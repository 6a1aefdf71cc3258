#include "server/gateway/video_walk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/gateway/scripted_frontend.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/wait_for.h"

namespace kinora {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Two frontends whose jobs alternate, except for two in a row: a1 b2 a3 b4 b5 a6, created at these seconds.
class VideoWalkTest : public testing::Test {
 protected:
  VideoWalkTest() {
    for (const int second : {1, 3, 6}) a_.AddJob(absl::StrCat("a", second), second);
    for (const int second : {2, 4, 5}) b_.AddJob(absl::StrCat("b", second), second);
    Frontends::List list;
    list.push_back(a_.Connect());
    list.push_back(b_.Connect());
    frontends_ = std::make_unique<Frontends>(std::move(list));
  }

  absl::StatusOr<VideoPage> Walk(Frontends& frontends, const VideoListing& listing) {
    return WaitFor<VideoPage>(
        [&](auto done) { VideoWalk::Start(frontends, {}, std::make_shared<CurrentCall>(), listing, done); });
  }
  absl::StatusOr<VideoPage> Walk(const VideoListing& listing) { return Walk(*frontends_, listing); }

  static std::vector<std::string> Ids(const VideoPage& page) {
    std::vector<std::string> ids;
    for (const v1::Video& video : page.videos) ids.push_back(video.id());
    return ids;
  }
  // All jobs, each page after the last one of the page before.
  std::vector<std::string> All(bool ascending, int limit) {
    std::vector<std::string> ids;
    for (VideoListing listing = {.ascending = ascending, .limit = limit};; listing.after = ids.back()) {
      const auto page = Walk(listing);
      EXPECT_THAT(page, IsOk());
      if (!page.ok()) return ids;
      for (const std::string& id : Ids(*page)) ids.push_back(id);
      if (!page->has_more) return ids;
      EXPECT_EQ(static_cast<int>(page->videos.size()), limit);
      if (ids.size() > 100) return ids;
    }
  }

  ScriptedFrontend a_, b_;
  std::unique_ptr<Frontends> frontends_;
};

TEST_F(VideoWalkTest, MergesTheListsInTheOrderOfCreation) {
  KINORA_ASSERT_OK_AND_ASSIGN(const VideoPage down, Walk({}));
  EXPECT_THAT(Ids(down), ElementsAre("a6", "b5", "b4", "a3", "b2", "a1"));
  EXPECT_FALSE(down.has_more);
  KINORA_ASSERT_OK_AND_ASSIGN(const VideoPage up, Walk({.ascending = true}));
  EXPECT_THAT(Ids(up), ElementsAre("a1", "b2", "a3", "b4", "b5", "a6"));
}

TEST_F(VideoWalkTest, PagesContinueAfterAJobOfEitherFrontend) {
  for (int limit = 1; limit <= 7; ++limit) {
    EXPECT_THAT(All(/*ascending=*/false, limit), ElementsAre("a6", "b5", "b4", "a3", "b2", "a1")) << limit;
    EXPECT_THAT(All(/*ascending=*/true, limit), ElementsAre("a1", "b2", "a3", "b4", "b5", "a6")) << limit;
  }
}

TEST_F(VideoWalkTest, JobsThatBothListAreListedOnce) {
  for (const int second : {7, 8}) {
    a_.AddJob(absl::StrCat("c", second), second);
    b_.AddJob(absl::StrCat("c", second), second);
  }
  for (int limit = 1; limit <= 9; ++limit) {
    EXPECT_THAT(All(/*ascending=*/false, limit), ElementsAre("c8", "c7", "a6", "b5", "b4", "a3", "b2", "a1")) << limit;
    EXPECT_THAT(All(/*ascending=*/true, limit), ElementsAre("a1", "b2", "a3", "b4", "b5", "a6", "c7", "c8")) << limit;
  }
}

TEST_F(VideoWalkTest, FollowsThePagesOfTheFrontendsAlsoEmptyOnes) {
  a_.SetMostOnPage(1);
  b_.SetMostOnPage(2);
  for (const int limit : {1, 2, 4, 10}) {
    EXPECT_THAT(All(/*ascending=*/false, limit), ElementsAre("a6", "b5", "b4", "a3", "b2", "a1")) << limit;
  }
}

TEST_F(VideoWalkTest, KnowsWhetherMoreFollowAtTheExactEnd) {
  KINORA_ASSERT_OK_AND_ASSIGN(const VideoPage exact, Walk({.limit = 6}));
  EXPECT_FALSE(exact.has_more);
  KINORA_ASSERT_OK_AND_ASSIGN(const VideoPage shorter, Walk({.limit = 5}));
  EXPECT_TRUE(shorter.has_more);
  KINORA_ASSERT_OK_AND_ASSIGN(const VideoPage last, Walk({.after = "a1"}));
  EXPECT_THAT(Ids(last), IsEmpty());
  EXPECT_FALSE(last.has_more);
}

TEST_F(VideoWalkTest, JobsOfTheSameTimeHaveOneOrderInBothDirections) {
  a_.AddJob("twin-a", 9);
  b_.AddJob("twin-b", 9);
  EXPECT_THAT(All(/*ascending=*/false, 1), ElementsAre("twin-b", "twin-a", "a6", "b5", "b4", "a3", "b2", "a1"));
  EXPECT_THAT(All(/*ascending=*/true, 1), ElementsAre("a1", "b2", "a3", "b4", "b5", "a6", "twin-a", "twin-b"));
}

TEST_F(VideoWalkTest, FailsAfterAnUnknownJob) {
  EXPECT_THAT(Walk({.after = "unknown"}), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(VideoWalkTest, FailsIfOneFrontendDoes) {
  b_.Reject("ListVideos", absl::UnavailableError("starting"));
  EXPECT_THAT(Walk({}), StatusIs(absl::StatusCode::kUnavailable));
  Frontends::List list;
  list.push_back(a_.Connect());
  list.push_back(ConnectToNobody());
  Frontends half(std::move(list));
  EXPECT_THAT(Walk(half, {}), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(VideoWalkTest, LeavesTheStartToTheFrontendIfThereIsOne) {
  Frontends::List list;
  list.push_back(a_.Connect());
  Frontends one(std::move(list));
  KINORA_ASSERT_OK_AND_ASSIGN(const VideoPage page, Walk(one, {.after = "a6", .limit = 1}));
  EXPECT_THAT(Ids(page), ElementsAre("a3"));
  EXPECT_TRUE(page.has_more);
  EXPECT_THAT(a_.Calls(), ElementsAre("ListVideos"));
}

}  // namespace
}  // namespace kinora
