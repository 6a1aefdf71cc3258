// The order, the start and the search of JobStore::List.
#include "server/frontend/jobs/job_listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "server/common/status_details.h"
#include "server/frontend/jobs/prompt_words.h"
#include "server/frontend/jobs/sqlite_job_store.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/wait_for.h"

namespace kinora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class JobListing : public testing::Test {
 protected:
  JobListing() {
    store_ = *SqliteJobStore::Open(":memory:", {.default_ttl = absl::Hours(1)}, clock_, [](const v1::VideoEvent&) {});
  }

  JobId Create(const std::string& prompt) {
    v1::CreateVideoRequest request;
    request.mutable_generation()->set_prompt(prompt);
    const auto created = WaitFor<Created>(
        [&](Done<Created> done) { store_->Create(request, request.generation(), 0, std::move(done)); });
    KINORA_CHECK(created.ok()) << created.status();
    return created->video.id();
  }
  std::vector<JobId> CreateSome(int count) {
    std::vector<JobId> ids(count);
    for (JobId& id : ids) id = Create("a kite");
    return ids;
  }
  void Cancel(const JobId& id) {
    ASSERT_THAT(WaitFor<v1::Video>([&](Done<v1::Video> done) { store_->Cancel(id, std::move(done)); }), IsOk());
  }
  absl::StatusOr<JobPage> List(const ListOptions& options) {
    return WaitFor<JobPage>([&](Done<JobPage> done) { store_->List(options, std::move(done)); });
  }
  // Returns the videos of all pages. Only the first page is listed with options.after_id.
  std::vector<JobId> All(ListOptions options) {
    std::vector<JobId> ids;
    while (true) {
      const absl::StatusOr<JobPage> page = List(options);
      KINORA_CHECK(page.ok()) << page.status();
      for (const v1::Video& video : page->videos) ids.push_back(video.id());
      ++pages_;
      if (page->next_page_token.empty()) return ids;
      options.page_token = page->next_page_token;
      options.after_id.clear();
    }
  }
  std::vector<JobId> WithText(const std::string& text) {
    const absl::StatusOr<std::vector<std::string>> words = SearchWords(text);
    KINORA_CHECK(words.ok()) << words.status();
    return All({.page_size = 2, .words = *words, .ascending = true});
  }

  FakeClock clock_;
  std::unique_ptr<SqliteJobStore> store_;
  int pages_ = 0;  // listed by All
};

std::vector<JobId> Reversed(std::vector<JobId> ids) {
  std::reverse(ids.begin(), ids.end());
  return ids;
}

TEST_F(JobListing, OldestFirstIsTheSameListingBackwards) {
  const std::vector<JobId> ids = CreateSome(5);
  for (const int page_size : {1, 2, 5, 6}) {
    EXPECT_EQ(All({.page_size = page_size, .ascending = true}), ids) << page_size;
    EXPECT_EQ(All({.page_size = page_size}), Reversed(ids)) << page_size;
  }
  Cancel(ids[1]);
  Cancel(ids[3]);
  const std::vector<v1::Video::State> cancelled = {v1::Video::CANCELLED}, queued = {v1::Video::QUEUED};
  EXPECT_THAT(All({.page_size = 1, .states = cancelled, .ascending = true}), ElementsAre(ids[1], ids[3]));
  EXPECT_THAT(All({.page_size = 2, .states = queued, .ascending = true}), ElementsAre(ids[0], ids[2], ids[4]));
  EXPECT_THAT(All({.page_size = 2, .id_prefix = ids[2], .ascending = true}), ElementsAre(ids[2]));
}

TEST_F(JobListing, AfterAVideoComeThoseBehindItInEitherOrder) {
  const std::vector<JobId> ids = CreateSome(5);
  EXPECT_THAT(All({.page_size = 2, .after_id = ids[1], .ascending = true}), ElementsAre(ids[2], ids[3], ids[4]));
  EXPECT_THAT(All({.page_size = 2, .after_id = ids[3]}), ElementsAre(ids[2], ids[1], ids[0]));
  EXPECT_THAT(All({.page_size = 2, .after_id = ids[4], .ascending = true}), IsEmpty());
  EXPECT_THAT(All({.page_size = 2, .after_id = ids[0]}), IsEmpty());
  EXPECT_THAT(All({.page_size = 2, .after_id = ids[0], .ascending = true}),
              ElementsAre(ids[1], ids[2], ids[3], ids[4]));
  // A video that the filters leave out has a place, too.
  Cancel(ids[2]);
  EXPECT_THAT(All({.page_size = 1, .states = {v1::Video::QUEUED}, .after_id = ids[2]}), ElementsAre(ids[1], ids[0]));
  EXPECT_THAT(All({.page_size = 1, .states = {v1::Video::CANCELLED}, .after_id = ids[1], .ascending = true}),
              ElementsAre(ids[2]));
  EXPECT_THAT(All({.page_size = 1, .id_prefix = ids[0], .after_id = ids[4]}), ElementsAre(ids[0]));
}

TEST_F(JobListing, AfterNoJobIsNotFoundAndNamesTheField) {
  const std::vector<JobId> ids = CreateSome(2);
  for (const std::string& none : {std::string("nobody"), ids[0].substr(0, 8), std::string("%")}) {
    EXPECT_THAT(List({.page_size = 2, .after_id = none}),
                StatusIs(absl::StatusCode::kNotFound, StartsWith("after_id: no video \"" + none)));
  }
  Cancel(ids[0]);
  ASSERT_THAT(WaitForStatus([&](Finished done) { store_->Delete(ids[0], std::move(done)); }), IsOk());
  EXPECT_THAT(List({.page_size = 2, .after_id = ids[0]}), StatusIs(absl::StatusCode::kNotFound, HasSubstr("after_id")));
  Cancel(ids[1]);
  clock_.Advance(absl::Minutes(61));
  WaitFor<std::vector<JobId>>([&](auto done) { store_->SweepExpired(clock_.Now(), std::move(done)); }).IgnoreError();
  const absl::Status expired = List({.page_size = 2, .after_id = ids[1]}).status();
  EXPECT_THAT(expired, StatusIs(absl::StatusCode::kNotFound, HasSubstr("after_id")));
  EXPECT_EQ(ErrorReason(expired), "EXPIRED");
}

TEST_F(JobListing, APageTokenIsOfOneOrder) {
  CreateSome(3);
  const std::string oldest = List({.page_size = 1, .ascending = true})->next_page_token,
                    newest = List({.page_size = 1})->next_page_token;
  EXPECT_THAT(List({.page_size = 1, .page_token = oldest}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("page_token")));
  EXPECT_THAT(List({.page_size = 1, .page_token = newest, .ascending = true}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("page_token")));
}

TEST_F(JobListing, AllWordsMustBeInThePromptInAnyOrderAndCase) {
  const JobId fox = Create("A red Fox\tin the snow"), kite = Create("a Red kite"), none = Create("");
  EXPECT_THAT(WithText("fox"), ElementsAre(fox));
  EXPECT_THAT(WithText("RED"), ElementsAre(fox, kite));
  EXPECT_THAT(WithText("  snow\n re "), ElementsAre(fox));  // a part of "red"
  EXPECT_THAT(WithText("kite fox"), IsEmpty());
  EXPECT_THAT(WithText("redfox"), IsEmpty());
  EXPECT_THAT(WithText(" "), ElementsAre(fox, kite, none));
}

TEST_F(JobListing, NoCharacterOfAWordHasAMeaning) {
  const std::vector<std::string> prompts = {"100% wool",  "a_b",       "it's",       "C:\\new",
                                            "x*[y]?",     "; DROP --", "\"quoted\"", "caf\xc3\xa9 \xe4\xb8\xad",
                                            "plain words"};
  std::vector<JobId> ids;
  for (const std::string& prompt : prompts) ids.push_back(Create(prompt));
  const std::vector<std::string> words = {"%", "_", "'", "\\", "*[y]?", ";", "\"", "\xe4\xb8\xad"};
  for (size_t i = 0; i < words.size(); ++i) EXPECT_THAT(WithText(words[i]), ElementsAre(ids[i])) << words[i];
  EXPECT_THAT(WithText("caf\xc3\xa9"), ElementsAre(ids[7]));
  EXPECT_THAT(WithText("caf\xc3\x89"), IsEmpty());  // only the letters A to Z match in either case
  EXPECT_THAT(WithText("%plain%"), IsEmpty());
}

TEST_F(JobListing, RareWordsAreFoundOnLaterPages) {
  const JobId first = Create("a red fox");
  CreateSome(2100);
  const JobId last = Create("another fox");
  KINORA_ASSERT_OK_AND_ASSIGN(const JobPage page, List({.page_size = 5, .words = {"fox"}}));
  ASSERT_EQ(page.videos.size(), 1u);  // it does not search all records
  EXPECT_EQ(page.videos[0].id(), last);
  EXPECT_NE(page.next_page_token, "");
  EXPECT_THAT(All({.page_size = 5, .words = {"fox"}}), ElementsAre(last, first));
  EXPECT_THAT(All({.page_size = 5, .words = {"fox"}, .ascending = true}), ElementsAre(first, last));
  pages_ = 0;
  EXPECT_THAT(All({.page_size = 5, .words = {"wolf"}}), IsEmpty());
  EXPECT_EQ(pages_, 3);
}

TEST(PromptWords, ASearchIsBounded) {
  EXPECT_THAT(SearchWords(std::string(kMaxSearchBytes, 'x')), IsOkAndHolds(ElementsAre(std::string(1000, 'x'))));
  EXPECT_THAT(SearchWords(std::string(kMaxSearchBytes + 1, 'x')),
              StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("text: 1001 bytes")));
  std::string text;
  for (size_t i = 0; i < kMaxSearchWords; ++i) absl::StrAppend(&text, "w", i, " ");
  EXPECT_THAT(SearchWords(text), IsOkAndHolds(testing::SizeIs(kMaxSearchWords)));
  EXPECT_THAT(SearchWords(text + "more"),
              StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("text: 17 words; at most 16")));
}

}  // namespace
}  // namespace kinora
