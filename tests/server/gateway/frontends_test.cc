#include "server/gateway/frontends.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "server/common/status_details.h"
#include "tests/server/gateway/scripted_frontend.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/wait_for.h"

namespace kinora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Frontends::List ListOf(std::unique_ptr<FrontendClient> a, std::unique_ptr<FrontendClient> b) {
  Frontends::List list;
  list.push_back(std::move(a));
  list.push_back(std::move(b));
  return list;
}

absl::StatusOr<FrontendClient*> Find(Frontends& frontends, const std::string& id) {
  return WaitFor<FrontendClient*>(
      [&](auto done) { frontends.Find({}, id, std::make_shared<CurrentCall>(), std::move(done)); });
}

TEST(FrontendsTest, FindsAJobAtTheSecondAndRemembersIt) {
  ScriptedFrontend first, second;
  second.AddJob("job", 1);
  Frontends frontends(ListOf(first.Connect(), second.Connect()));
  EXPECT_THAT(Find(frontends, "job"), IsOkAndHolds(frontends.all()[1].get()));
  EXPECT_THAT(Find(frontends, "job"), IsOkAndHolds(frontends.all()[1].get()));
  EXPECT_THAT(first.Calls(), ElementsAre("GetVideo")) << "the second time nobody is asked";
  EXPECT_THAT(second.Calls(), ElementsAre("GetVideo"));
}

TEST(FrontendsTest, AsksNobodyForAJobThatItHasSeenCreated) {
  ScriptedFrontend first, second;
  Frontends frontends(ListOf(first.Connect(), second.Connect()));
  frontends.Remember("job", frontends.all()[1].get());
  EXPECT_THAT(Find(frontends, "job"), IsOkAndHolds(frontends.all()[1].get()));
  EXPECT_THAT(first.Calls(), IsEmpty());
}

TEST(FrontendsTest, AsksNobodyIfThereIsOne) {
  ScriptedFrontend only;
  Frontends::List list;
  list.push_back(only.Connect());
  Frontends frontends(std::move(list));
  EXPECT_THAT(Find(frontends, "job"), IsOkAndHolds(frontends.all()[0].get()));
  EXPECT_THAT(only.Calls(), IsEmpty());
}

TEST(FrontendsTest, AJobThatNoneHasIsNotFound) {
  ScriptedFrontend first, second;
  Frontends frontends(ListOf(first.Connect(), second.Connect()));
  EXPECT_THAT(Find(frontends, "job"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("no job job")));
  second.AddJob("job", 1);
  EXPECT_THAT(Find(frontends, "job"), IsOk()) << "not remembered as absent";
}

TEST(FrontendsTest, AJobThatTheOneWhichIsDownMayHaveIsNotReportedAsAbsent) {
  ScriptedFrontend up;
  for (const bool down_first : {true, false}) {
    Frontends frontends(down_first ? ListOf(ConnectToNobody(), up.Connect()) : ListOf(up.Connect(), ConnectToNobody()));
    EXPECT_THAT(Find(frontends, "job"), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("cannot be reached")));
  }
  up.AddJob("job", 1);
  Frontends frontends(ListOf(ConnectToNobody(), up.Connect()));
  EXPECT_THAT(Find(frontends, "job"), IsOkAndHolds(frontends.all()[1].get()));
}

TEST(FrontendsTest, ReportsTheReasonOfTheOneThatKnewTheJob) {
  ScriptedFrontend first, second;
  first.Reject("GetVideo", WithErrorInfo(absl::NotFoundError("the job has expired"), "EXPIRED"));
  Frontends frontends(ListOf(first.Connect(), second.Connect()));
  EXPECT_THAT(Find(frontends, "job"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("expired")));
}

TEST(FrontendsTest, ATokenThatOneRejectsIsNotReportedAsAnAbsentJob) {
  ScriptedFrontend first, second;
  first.Reject("GetVideo", absl::UnauthenticatedError("wrong token"));
  Frontends frontends(ListOf(first.Connect(), second.Connect()));
  EXPECT_THAT(Find(frontends, "job"), StatusIs(absl::StatusCode::kUnauthenticated));
}

TEST(FrontendsTest, TakesTurnsExceptWithAKey) {
  ScriptedFrontend first, second;
  Frontends frontends(ListOf(first.Connect(), second.Connect()));
  FrontendClient *const a = frontends.all()[0].get(), *const b = frontends.all()[1].get();
  EXPECT_THAT(frontends.InTurn(""), ElementsAre(a, b));
  EXPECT_THAT(frontends.InTurn(""), ElementsAre(b, a));
  EXPECT_THAT(frontends.InTurn(""), ElementsAre(a, b));
  std::set<FrontendClient*> firsts;
  for (int key = 0; key < 100; ++key) {
    const std::string text = absl::StrCat("key ", key);
    firsts.insert(frontends.InTurn(text).front());
    EXPECT_EQ(frontends.InTurn(text), frontends.InTurn(text));
  }
  EXPECT_EQ(firsts.size(), 2u) << "keys are spread";
}

TEST(FrontendsTest, AnotherMayTakeWhatOneCannotTakeNow) {
  EXPECT_TRUE(AnotherMayTakeIt(absl::UnavailableError("down")));
  EXPECT_TRUE(AnotherMayTakeIt(absl::ResourceExhaustedError("full")));
  EXPECT_TRUE(AnotherMayTakeIt(WithErrorInfo(absl::FailedPreconditionError("model"), "MODEL_NOT_LOADED")));
  EXPECT_FALSE(AnotherMayTakeIt(absl::FailedPreconditionError("other")));
  EXPECT_FALSE(AnotherMayTakeIt(absl::InvalidArgumentError("wrong")));
  EXPECT_FALSE(AnotherMayTakeIt(absl::DeadlineExceededError("it may have been created")));
}

TEST(CurrentCallTest, CancelsThePresentCallAndLaterOnes) {
  class Call : public FrontendCall {
   public:
    void Cancel() override { cancelled = true; }
    bool cancelled = false;
  };
  CurrentCall current;
  const auto past = std::make_shared<Call>(), present = std::make_shared<Call>(), later = std::make_shared<Call>();
  current.Set(past);
  current.Set(present);
  current.Cancel();
  EXPECT_FALSE(past->cancelled);
  EXPECT_TRUE(present->cancelled);
  current.Set(later);
  EXPECT_TRUE(later->cancelled);
}

}  // namespace
}  // namespace kinora
