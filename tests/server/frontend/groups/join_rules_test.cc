// The rules for joining, and the effect of rejected ranks on those that have joined.
#include "server/frontend/groups/join_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/common/secret.h"
#include "tests/server/frontend/groups/dispatcher_fixture.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Secret, IsDrawnAnewAndComparedWhole) {
  const std::string secret = DrawSecret();
  EXPECT_EQ(secret.size(), kSecretBytes);
  EXPECT_NE(secret, DrawSecret());
  EXPECT_TRUE(SameSecret(secret, std::string(secret)));
  std::string other = secret;
  other.back() = static_cast<char>(other.back() ^ 1);
  EXPECT_FALSE(SameSecret(secret, other));
  EXPECT_FALSE(SameSecret(secret, secret.substr(1)));
  EXPECT_FALSE(SameSecret(secret, ""));
}

class JoinTest : public DispatcherTest {
 protected:
  v1::Hello Supervised(const std::string& incarnation, const std::string& secret) {
    v1::Hello hello = HelloOf(incarnation);
    hello.set_secret(secret);
    return hello;
  }
  // A rank that may join and has loaded its model.
  std::shared_ptr<RecordingLink> Join(const v1::Hello& hello) {
    auto link = std::make_shared<RecordingLink>();
    dispatcher_->Join(hello, link);
    EXPECT_TRUE(link->Next().has_welcome());
    v1::WorkerMessage ready;
    ready.mutable_ready()->mutable_model()->set_id("tiny");
    dispatcher_->Receive(link, ready);
    return link;
  }
};

TEST_F(JoinTest, AForgedHelloIsRefusedAndHarmsNobody) {
  const std::string secret = DrawSecret();
  std::vector<std::string> lost;
  dispatcher_->SetLossListener(
      [&](const std::string&, const std::string& incarnation, const std::string&) { lost.push_back(incarnation); });
  dispatcher_->Supervise("0", "", "");
  const auto denied = StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("secret: group 0 is supervised"));
  EXPECT_THAT(Rejection(Supervised("", "")), denied);  // before the group has an incarnation
  dispatcher_->Supervise("0", "a", secret);
  const auto forge = [&] {
    EXPECT_THAT(Rejection(Supervised("a", "")), denied);
    EXPECT_THAT(Rejection(Supervised("a", std::string(kSecretBytes, '\0'))), denied);
    EXPECT_THAT(Rejection(Supervised("b", secret)), denied);  // the secret belongs to another incarnation
    v1::Hello another_size = Supervised("a", "");
    another_size.set_world_size(7);
    EXPECT_THAT(Rejection(another_size), denied);
  };
  forge();
  const auto link = Join(Supervised("a", secret));
  const JobId id = Submit();
  const v1::Run run = AwaitRun(*link);
  forge();
  End(link, run, absl::OkStatus());
  EXPECT_EQ(AwaitState(id, v1::Video::COMPLETED).attempt(), 1);
  EXPECT_EQ(Groups()[0].state(), "idle");
  EXPECT_THAT(lost, testing::IsEmpty());
}

TEST_F(JoinTest, TheNextIncarnationHasASecretOfItsOwn) {
  const std::string first = DrawSecret(), second = DrawSecret();
  dispatcher_->Supervise("0", "a", first);
  dispatcher_->Disconnect(Join(Supervised("a", first)), absl::OkStatus());
  dispatcher_->Supervise("0", "b", second);
  EXPECT_THAT(Rejection(Supervised("b", first)), StatusIs(absl::StatusCode::kPermissionDenied));
  Join(Supervised("b", second));
}

TEST_F(JoinTest, AGroupThatNobodySupervisesHasNoSecret) {
  dispatcher_->Supervise("0", "a", DrawSecret());
  JoinGroup("by hand", "1");
  v1::Hello hello = HelloOf("x", "2");
  hello.set_secret(DrawSecret());
  EXPECT_THAT(Rejection(hello), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("does not supervise group 2")));
}

TEST_F(JoinTest, ARankThatIsTakenIsRefusedWithoutHarmToWhoHoldsIt) {
  const auto link = JoinGroup("a");
  const JobId id = Submit();
  const v1::Run run = AwaitRun(*link);
  const auto other = std::make_shared<RecordingLink>();
  dispatcher_->Join(HelloOf("a"), other);
  EXPECT_THAT(other->AwaitClosed(), StatusIs(absl::StatusCode::kUnavailable));
  End(other, run, absl::InternalError("forged"));
  v1::WorkerMessage failed;
  failed.mutable_rank_failed()->mutable_error()->set_message("forged");
  dispatcher_->Receive(other, failed);
  dispatcher_->Disconnect(other, absl::OkStatus());
  EXPECT_EQ(Groups()[0].state(), "busy");
  End(link, run, absl::OkStatus());
  EXPECT_EQ(AwaitState(id, v1::Video::COMPLETED).attempt(), 1);
}

TEST_F(JoinTest, AnotherProtocolIsRefusedWithBothAndWhatToDo) {
  v1::Hello hello = HelloOf("a");
  hello.set_protocol("other");
  hello.set_commit("decade");
  EXPECT_THAT(Rejection(hello),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("the frontend uses 776f726473 (commit c0ffee)"),
                             HasSubstr("the worker 6f74686572 (commit decade)"), HasSubstr("upgrade the older"))));
  hello.clear_protocol();  // like old workers without a protocol version
  hello.clear_commit();
  EXPECT_THAT(Rejection(hello),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("the worker none (commit none)")));
}

TEST_F(JoinTest, AGroupOfAnotherCommitJoinsIfNobodySupervisesIt) {
  v1::Hello hello = HelloOf("a");
  hello.set_commit("decade");
  Join(hello);
  const std::string secret = DrawSecret();
  dispatcher_->Supervise("1", "a", secret);
  hello.set_group("1");
  hello.set_secret(secret);
  EXPECT_THAT(Rejection(hello),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("commit: this frontend is built from c0ffee, but the worker that it starts"),
                             HasSubstr("decade; install both from one build"))));
}

TEST_F(JoinTest, AllRanksOfAGroupAreOfOneCommit) {
  v1::Hello hello = HelloOf("a");
  hello.set_world_size(2);
  const auto first = std::make_shared<RecordingLink>();
  dispatcher_->Join(hello, first);
  EXPECT_TRUE(first->Next().has_welcome());
  hello.set_rank(1);
  hello.set_commit("decade");
  EXPECT_THAT(Rejection(hello),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("commit: rank 0 of group 0 is built from c0ffee, rank 1 of decade")));
  EXPECT_FALSE(first->closed());
  hello.set_commit("c0ffee");
  const auto second = std::make_shared<RecordingLink>();
  dispatcher_->Join(hello, second);
  EXPECT_TRUE(second->Next().has_welcome());
}

// Ranks at the join port that have shown a token or a certificate.
class OutsideTest : public JoinTest {
 protected:
  OutsideTest() { dispatcher_->Await("far", 2); }
  static v1::Hello Rank(int rank) {
    v1::Hello hello = HelloOf("", "far");
    hello.set_rank(rank);
    hello.set_world_size(2);
    return hello;
  }
  std::shared_ptr<RecordingLink> Say(const v1::Hello& hello) {
    auto link = std::make_shared<RecordingLink>();
    dispatcher_->Join(hello, link, Entrance::kJoinPort);
    return link;
  }
};

TEST_F(OutsideTest, OnlyAGroupThatIsAwaitedMayJoinAtThePort) {
  EXPECT_THAT(Say(HelloOf("", "other"))->AwaitClosed(),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("expects no outside group \"other\"")));
  dispatcher_->Supervise("0", "a", DrawSecret());
  EXPECT_THAT(Say(HelloOf("a"))->AwaitClosed(), StatusIs(absl::StatusCode::kPermissionDenied));
  v1::Hello alone = Rank(0);
  alone.set_world_size(1);
  EXPECT_THAT(Say(alone)->AwaitClosed(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("group far has 2 processes")));
}

TEST_F(OutsideTest, TheFrontendDrawsTheIncarnationThatAllRanksAreToldAndTheNextHasAnother) {
  const auto first = Say(Rank(0)), second = Say(Rank(1));
  const v1::Welcome welcome = first->Next().welcome();
  EXPECT_NE(welcome.incarnation(), "");
  const v1::Welcome other = second->Next().welcome();
  EXPECT_EQ(other.incarnation(), welcome.incarnation());
  EXPECT_EQ(other.group_key(), welcome.group_key());
  EXPECT_THAT(Say(Rank(1))->AwaitClosed(), StatusIs(absl::StatusCode::kUnavailable)) << "come again";
  dispatcher_->Disconnect(first, absl::OkStatus());
  EXPECT_TRUE(second->Next().has_abort());
  EXPECT_THAT(second->AwaitClosed(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 0 disconnected")));
  const v1::Welcome again = Say(Rank(1))->Next().welcome();
  EXPECT_NE(again.incarnation(), welcome.incarnation());
  EXPECT_NE(again.group_key(), welcome.group_key());
}

TEST_F(OutsideTest, AGroupThatStaysAwayIsListedAndNotReady) {
  GroupsHealth health;
  dispatcher_->SetHealthListener([&](const GroupsHealth& now) { health = now; });
  EXPECT_EQ(Groups()[0].reason(), "waiting for all its ranks, 2");
  EXPECT_EQ(health.absent, "group far is joining (waiting for all its ranks, 2)");
  const auto first = Say(Rank(1));
  Settle();
  EXPECT_EQ(health.absent, "group far is joining (waiting for rank 0 of 2)");
  Pass(GroupLimits{}.join_timeout + absl::Seconds(2), {first});
  Settle();
  EXPECT_THAT(health.absent, testing::StartsWith("group far is lost (waiting for rank 0 of 2, 5m"));
  Pass(GroupLimits{}.join_timeout + absl::Seconds(2), {});
  Settle();
  EXPECT_EQ(health.absent, "group far is lost (waiting for all its ranks, 2: none has joined within 5m)");
  EXPECT_EQ(health.groups, (std::map<std::string, bool>{{"far", false}}));
}

}  // namespace
}  // namespace kinora
