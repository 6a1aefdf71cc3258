// Several kinora-frontend processes that call each other, and groups that join any of them.
#include <gmock/gmock.h>

#include "server/common/build_version.h"
#include "server/worker/join_home.h"
#include "tests/server/frontend/shared_frontends.h"
#include "tests/testing/free_port.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr char kToken[] = "a token that all of them have";

class CallingFrontend : public SharingFrontend {
 public:
  CallingFrontend() : join_(Address()), peer_(Address()) {
    WriteFile(File("token"), absl::StrCat(kToken, "\n"));
    chmod(File("token").c_str(), 0600);
    WriteFile(File("config"), "groups { id: 'pair' processes: 2 outside: true } groups { id: 'one' outside: true }");
  }
  std::vector<std::string> Flags() const {
    return {"--config",
            File("config"),
            "--join-address",
            join_,
            "--peer-address",
            peer_,
            "--join-token-file",
            File("token"),
            "--peer-token-file",
            File("token"),
            "--group-join-timeout-seconds=4"};
  }
  const std::string& join() const { return join_; }
  const std::string& peer() const { return peer_; }
  std::unique_ptr<v1::Admin::Stub> Admin() const {
    return v1::Admin::NewStub(
        grpc::CreateChannel(absl::StrCat("unix:", File("state/admin.sock")), grpc::InsecureChannelCredentials()));
  }
  std::vector<std::string> Groups() const {  // "ID STATE FRONTEND"
    grpc::ClientContext context;
    v1::ListWorkerGroupsResponse listed;
    EXPECT_TRUE(Admin()->ListWorkerGroups(&context, {}, &listed).ok());
    std::vector<std::string> groups;
    for (const v1::WorkerGroup& group : listed.groups()) {
      groups.push_back(absl::StrCat(group.id(), " ", group.state(), " ", group.frontend()));
    }
    return groups;
  }

 private:
  static std::string Address() { return absl::StrCat("127.0.0.1:", FreePort()); }
  const std::string join_, peer_;
};

class CallingFrontends : public SharedFrontends {
 protected:
  void Serve(CallingFrontend& frontend) {
    std::vector<std::string> flags = flags_;
    for (const std::string& flag : frontend.Flags()) flags.push_back(flag);
    frontend.Serve(flags);
  }
  static absl::StatusOr<JoinedFrontend> JoinAt(const CallingFrontend& frontend, int rank) {
    v1::Hello hello;
    hello.set_group("pair");
    hello.set_rank(rank);
    hello.set_world_size(2);
    hello.set_protocol(ThisBuild().protocol);
    hello.set_commit(ThisBuild().commit);
    return JoinHome({.address = frontend.join(), .token = kToken}, hello, absl::Seconds(30));
  }
};

TEST_F(CallingFrontends, TheRanksOfAGroupMeetWhereverTheyArrive) {
  CallingFrontend a, b;
  Serve(a);
  Serve(b);
  KINORA_ASSERT_OK_AND_ASSIGN(const JoinedFrontend first, JoinAt(b, 1));
  KINORA_ASSERT_OK_AND_ASSIGN(const JoinedFrontend second, JoinAt(a, 0));
  EXPECT_EQ(first.address, b.join());
  EXPECT_EQ(second.address, b.join());
  EXPECT_EQ(first.client->welcome().incarnation(), second.client->welcome().incarnation());
  EXPECT_THAT(a.LogText(), HasSubstr("worker_redirected"));
  const auto expected = ElementsAre("one joining ", absl::StrCat("pair loading ", b.peer()));
  EXPECT_TRUE(SharingFrontend::Eventually([&] { return testing::Matches(expected)(a.Groups()); }));
  EXPECT_THAT(b.Groups(), expected);
  // It is awaited at both, so both would report it missing.
  EXPECT_TRUE(SharingFrontend::Eventually([&] { return a.LogText().find("group_incomplete") != std::string::npos; }))
      << "the other group is missing";
  EXPECT_THAT(a.LogText(), testing::Not(testing::ContainsRegex("group_incomplete[^\n]*pair")));
}

TEST_F(CallingFrontends, AWorkerOfAnotherVersionIsRefusedWhereverItArrives) {
  CallingFrontend a, b;
  Serve(a);
  Serve(b);
  KINORA_ASSERT_OK_AND_ASSIGN(const JoinedFrontend first, JoinAt(b, 0));
  v1::Hello hello;
  hello.set_group("pair");
  hello.set_rank(1);
  hello.set_world_size(2);
  hello.set_protocol("another");
  EXPECT_THAT(JoinHome({.address = a.join(), .token = kToken}, hello, absl::Seconds(30)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("protocol: the frontend uses")));
}

TEST_F(CallingFrontends, AGroupMovesOnceItsHomeIsGone) {
  CallingFrontend a, b;
  Serve(a);
  Serve(b);
  {
    KINORA_ASSERT_OK_AND_ASSIGN(const JoinedFrontend first, JoinAt(b, 0));
    EXPECT_EQ(b.End(SIGKILL), -SIGKILL);
  }
  KINORA_ASSERT_OK_AND_ASSIGN(const JoinedFrontend first, JoinAt(a, 0));  // sent to b until its lease is over
  EXPECT_EQ(first.address, a.join());
  Serve(b);
  KINORA_ASSERT_OK_AND_ASSIGN(const JoinedFrontend second, JoinAt(b, 1));
  EXPECT_EQ(second.address, a.join());
}

TEST_F(CallingFrontends, AFrontendThatDrainsGivesUpItsGroups) {
  CallingFrontend a, b;
  Serve(a);
  Serve(b);
  { KINORA_ASSERT_OK_AND_ASSIGN(const JoinedFrontend first, JoinAt(b, 0)); }
  EXPECT_EQ(b.End(SIGTERM), 0);
  EXPECT_EQ(PostgresServer::Query(url_, "SELECT count(*) FROM kinora.homes").Int(0, 0), 0);
  EXPECT_EQ(PostgresServer::Query(url_, "SELECT count(*) FROM kinora.frontends").Int(0, 0), 1);
  KINORA_ASSERT_OK_AND_ASSIGN(const JoinedFrontend first, JoinAt(a, 0));
  EXPECT_EQ(first.address, a.join());
}

TEST_F(CallingFrontends, AFrontendWithoutGroupsEstimatesByThoseOfAnother) {
  CallingFrontend a, b;
  Serve(a);
  Serve(b);
  v1::CreateVideoRequest request;
  request.mutable_generation()->set_prompt("a kite");
  v1::Estimate estimate;
  const auto asks = [&] {
    grpc::ClientContext context;
    return a.stub().EstimateVideo(&context, request, &estimate);
  };
  EXPECT_FALSE(asks().ok());
  const auto worker = b.Join("one");
  v1::Estimate answer;
  answer.set_seconds(7);
  answer.set_fits(false);
  answer.set_device_bytes(10);
  worker->SetEstimate(answer);
  EXPECT_TRUE(SharingFrontend::Eventually([&] { return asks().ok(); }));
  EXPECT_EQ(estimate.seconds(), 7);
  EXPECT_EQ(worker->LastEstimateRequest().generation().prompt(), "a kite");
  v1::Video video;
  grpc::ClientContext context;
  const grpc::Status refused = a.stub().CreateVideo(&context, request, &video);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << "it does not fit: " << refused.error_message();
}

TEST_F(CallingFrontends, StepsReachWatchersAndReadersElsewhere) {
  CallingFrontend a, b;
  Serve(a);
  Serve(b);
  const auto worker = b.Join("one");
  const std::string id = a.Create();
  const v1::Run run = worker->AwaitRun();
  worker->SendStage(run, "denoise", 8);
  worker->SendStep(run, "denoise", 3, 8);
  EXPECT_TRUE(SharingFrontend::Eventually([&] { return a.Get(id).progress().step() == 3; }));
  grpc::ClientContext context;
  v1::WatchVideoRequest request;
  request.set_id(id);
  const auto watch = a.stub().WatchVideo(&context, request);
  v1::VideoEvent event;
  ASSERT_TRUE(watch->Read(&event));
  worker->SendStep(run, "denoise", 4, 8);
  while (event.step().step() != 4) ASSERT_TRUE(watch->Read(&event));
  worker->Complete(run, "bytes");
  while (!event.has_terminal()) ASSERT_TRUE(watch->Read(&event));
}

TEST_F(CallingFrontends, GroupsOfAllAreListedAndChangedAtEach) {
  CallingFrontend a, b;
  Serve(a);
  Serve(b);
  const auto worker = b.Join("one");
  const std::string idle = absl::StrCat("0 idle ", b.peer());
  EXPECT_TRUE(SharingFrontend::Eventually([&] { return a.Groups().front() == idle; }));
  v1::WorkerGroupRequest request;
  request.set_id("0");
  v1::WorkerGroup group;
  {
    grpc::ClientContext context;
    const grpc::Status drained = a.Admin()->DrainWorkerGroup(&context, request, &group);
    ASSERT_TRUE(drained.ok()) << drained.error_message();
  }
  EXPECT_EQ(group.state(), "drained");
  EXPECT_EQ(b.Groups().front(), absl::StrCat("0 drained ", b.peer()));
  request.set_id("of nobody");
  grpc::ClientContext context;
  EXPECT_EQ(a.Admin()->RestartWorkerGroup(&context, request, &group).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(b.End(SIGKILL), -SIGKILL);
  EXPECT_TRUE(SharingFrontend::Eventually([&] {  // until its lease is over
    return testing::Matches(ElementsAre(StartsWith("one joining"), StartsWith("pair joining")))(a.Groups());
  }));
}

}  // namespace
}  // namespace kinora
