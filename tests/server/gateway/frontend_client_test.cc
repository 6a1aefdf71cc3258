// Calls that wait for their turn, at a frontend that answers when a test lets it.
#include "server/gateway/frontend_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <optional>

#include "absl/synchronization/notification.h"
#include "server/gateway/routes.h"
#include "tests/server/gateway/scripted_frontend.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Field;

template <typename Reply>
class Answer {
 public:
  std::function<void(absl::StatusOr<Reply>)> Callback() {
    return [this](absl::StatusOr<Reply> reply) {
      reply_ = std::move(reply);
      came_.Notify();
    };
  }
  const absl::StatusOr<Reply>& Await() {
    came_.WaitForNotification();
    return reply_;
  }

 private:
  absl::Notification came_;
  absl::StatusOr<Reply> reply_ = absl::UnknownError("no answer");
};

class FrontendClientTest : public testing::Test {
 protected:
  using Event = std::optional<v1::VideoEvent>;

  FrontendClientTest() {
    frontend_.AddJob("job", 1);
    frontend_.Hold("GetVideo");
  }
  FrontendCallPtr Get() { return client_->GetVideo({}, "job", videos_.emplace_back().Callback()); }
  std::shared_ptr<ReplyReader<v1::VideoEvent>> Watch() {
    v1::WatchVideoRequest request;
    request.set_id("job");
    auto watch = client_->WatchVideo({}, request);
    watch->Next(events_.emplace_back().Callback());
    return watch;
  }

  ScriptedFrontend frontend_;
  std::deque<Answer<v1::Video>> videos_;
  std::deque<Answer<Event>> events_;
  // Two calls at once, and two that wait.
  const std::unique_ptr<FrontendClient> client_ = frontend_.Connect({.beginning = 2, .waiting = 2});
};

TEST_F(FrontendClientTest, ACallBeyondTheBoundFailsWithRetryAfter) {
  for (int i = 0; i < 5; ++i) Get();
  const absl::Status& status = videos_[4].Await().status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable));
  const HttpReply reply = ErrorReply(status);
  EXPECT_EQ(reply.status, 503);
  EXPECT_THAT(reply.fields, Contains(AllOf(Field(&HttpField::name, "Retry-After"), Field(&HttpField::value, "2"))));
  const auto watch = Watch();
  EXPECT_THAT(events_[0].Await(), StatusIs(absl::StatusCode::kUnavailable));
  frontend_.Release("GetVideo");
  for (int i = 0; i < 4; ++i) EXPECT_THAT(videos_[i].Await(), IsOk()) << i;
}

TEST_F(FrontendClientTest, AClientThatLeavesGivesUpItsPlace) {
  Get(), Get();
  const FrontendCallPtr third = Get();
  const auto watch = Watch();
  third->Cancel();
  EXPECT_THAT(videos_[2].Await(), StatusIs(absl::StatusCode::kCancelled));
  watch->Cancel();
  const auto second_watch = Watch();
  Get();
  frontend_.Release("GetVideo");
  EXPECT_THAT(events_[1].Await(), IsOk());
  EXPECT_THAT(videos_[3].Await(), IsOk());
  const std::vector<std::string> calls = frontend_.Calls();
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "WatchVideo"), 1) << "the first watch had left before its turn";
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "GetVideo"), 3) << "so had the third call";
  second_watch->Cancel();
}

TEST_F(FrontendClientTest, AStreamThatHasBegunHoldsNoPlace) {
  std::vector<std::shared_ptr<ReplyReader<v1::VideoEvent>>> watches;
  for (int i = 0; i < 4; ++i) {
    watches.push_back(Watch());
    ASSERT_THAT(events_[i].Await(), IsOk()) << i;
  }
  frontend_.Release("GetVideo");
  Get();
  EXPECT_THAT(videos_[0].Await(), IsOk());
  for (const auto& watch : watches) watch->Cancel();
}

TEST_F(FrontendClientTest, AnUploadHoldsNoPlaceOnceItsHeaderIsRead) {
  frontend_.Hold("UploadInput");
  const TemporaryDirectory folder;
  KINORA_ASSERT_OK_AND_ASSIGN(std::unique_ptr<SpoolFile> opened, SpoolFile::Create(folder.path()));
  ASSERT_THAT(opened->Append("a picture"), IsOk());
  opened->Finish();
  const std::shared_ptr<const SpoolFile> file = std::move(opened);
  std::deque<Answer<v1::Input>> inputs;
  for (int i = 0; i < 2; ++i) client_->UploadInput({}, file, "", inputs.emplace_back().Callback());
  const auto watch = Watch();
  EXPECT_THAT(events_[0].Await(), IsOk());
  watch->Cancel();
  frontend_.Release("UploadInput");
  for (auto& input : inputs) EXPECT_THAT(input.Await(), IsOk());
}

TEST_F(FrontendClientTest, ProbesDoNotWaitForOtherCalls) {
  Get(), Get();
  absl::Status ready;
  absl::Notification answered;
  client_->CheckReady([&](const absl::Status& status) {
    ready = status;
    answered.Notify();
  });
  answered.WaitForNotification();
  EXPECT_THAT(ready, IsOk());
  frontend_.Release("GetVideo");
  for (int i = 0; i < 2; ++i) EXPECT_THAT(videos_[i].Await(), IsOk());
}

}  // namespace
}  // namespace kinora
