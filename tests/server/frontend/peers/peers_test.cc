// Calls between frontends, over real connections.
#include "server/frontend/peers/peers.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/check.h"
#include "server/common/metrics.h"
#include "server/frontend/peers/peer_address.h"
#include "server/frontend/peers/peer_server.h"
#include "server/frontend/peers/progress_relay.h"
#include "server/net/event_loop.h"
#include "tests/testing/certificates.h"
#include "tests/testing/free_port.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"
#include "tests/testing/wait_for.h"

namespace kinora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr char kToken[] = "a token of frontends";

class FakeRecords : public SharedFrontendRecords {
 public:
  void LivingFrontends(Done<std::vector<FrontendEntry>> done) override {
    absl::MutexLock lock(&mu_);
    ++looks_;
    done(living_);
  }
  void RemoveFrontend(const FrontendId&, Finished done) override { done(absl::OkStatus()); }
  void ClaimHome(const std::string&, const FrontendEntry&, Done<GroupHome> done) override { done(GroupHome()); }
  void LeaveHome(const std::string&, const FrontendId&, Finished done) override { done(absl::OkStatus()); }
  void FindHome(const std::string&, Done<GroupHome> done) override { done(GroupHome()); }

  void Set(std::vector<FrontendEntry> living) {
    absl::MutexLock lock(&mu_);
    living_ = std::move(living);
    const int before = looks_;
    const auto looked = [&] {
      mu_.AssertHeld();
      return looks_ >= before + 2;
    };
    mu_.Await(absl::Condition(&looked));  // the first may have begun before
  }

 private:
  absl::Mutex mu_;
  std::vector<FrontendEntry> living_ ABSL_GUARDED_BY(mu_);
  int looks_ ABSL_GUARDED_BY(mu_) = 0;
};

// A frontend with a PeerServer whose answers a test sets.
class OtherFrontend {
 public:
  OtherFrontend(const FrontendId& id, v1::FrontendConfig config) : id_(id), config_(std::move(config)) {
    config_.set_peer_address(absl::StrCat("127.0.0.1:", FreePort()));
    PeerAnswers answers{.hub = hub_};
    answers.on_news = [this](const v1::News& news) {
      absl::MutexLock lock(&mu_);
      news_.MergeFrom(news);
    };
    answers.estimate = [this](const v1::PeerEstimateRequest& request, Done<v1::Estimate> done) {
      absl::MutexLock lock(&mu_);
      asked_.push_back(request);
      done(estimate_);
    };
    answers.groups.list = [this](Done<std::vector<v1::WorkerGroup>> done) {
      v1::WorkerGroup group;
      group.set_id("of " + id_);
      done(std::vector<v1::WorkerGroup>{group});
    };
    answers.groups.drain = [](const v1::WorkerGroupRequest& request, Done<v1::WorkerGroup> done) {
      v1::WorkerGroup group;
      group.set_id(request.id());
      group.set_state("draining");
      done(group);
    };
    answers.groups.restart = [](const v1::WorkerGroupRequest&, Done<v1::WorkerGroup> done) {
      done(absl::NotFoundError("no such group"));
    };
    auto server = PeerServer::Start(config_, job_metrics_, metrics_, std::move(answers));
    KINORA_CHECK(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  FrontendEntry entry() const { return {.id = id_, .peer_address = config_.peer_address()}; }
  void SetEstimate(absl::StatusOr<v1::Estimate> estimate) {
    absl::MutexLock lock(&mu_);
    estimate_ = std::move(estimate);
  }
  std::vector<v1::PeerEstimateRequest> asked() {
    absl::MutexLock lock(&mu_);
    return asked_;
  }
  v1::News AwaitNews(int changed) {  // at least as many
    absl::MutexLock lock(&mu_);
    const auto told = [&] {
      mu_.AssertHeld();
      return news_.changed_size() >= changed;
    };
    mu_.Await(absl::Condition(&told));
    return news_;
  }
  void Stop() { server_->Shutdown(absl::ZeroDuration()); }
  EventHub& hub() { return hub_; }

 private:
  const FrontendId id_;
  v1::FrontendConfig config_;
  MetricsPage page_;
  FrontendMetrics metrics_{page_.registry()};
  JobMetrics job_metrics_{metrics_};
  EventHub hub_{Clock::Real(), absl::Hours(1), 10};
  absl::Mutex mu_;
  v1::News news_ ABSL_GUARDED_BY(mu_);
  std::vector<v1::PeerEstimateRequest> asked_ ABSL_GUARDED_BY(mu_);
  absl::StatusOr<v1::Estimate> estimate_ ABSL_GUARDED_BY(mu_) = absl::UnavailableError("no group has the model");
  std::unique_ptr<PeerServer> server_;
};

class PeersTest : public testing::Test {
 protected:
  PeersTest() { config_.set_peer_token_file(Write("tokens", absl::StrCat(kToken, "\nan older token of frontends\n"))); }
  ~PeersTest() override {
    if (peers_ != nullptr) peers_->Stop();
  }

  std::string Write(const std::string& name, const std::string& text) {
    WriteFile(directory_.File(name), text);
    KINORA_CHECK_EQ(chmod(directory_.File(name).c_str(), 0600), 0);
    return directory_.File(name);
  }
  void Start(const std::vector<FrontendEntry>& others) {
    auto options = PeersOptionsOf(config_, "me");
    KINORA_CHECK(options.ok()) << options.status();
    options->refresh = absl::Milliseconds(5);
    peers_ = std::make_unique<Peers>(records_, *std::move(options), std::make_unique<EventLoop>(Clock::Steady()));
    records_.Set(others);
  }
  absl::StatusOr<v1::Estimate> Estimate(bool is_job = false) {
    return WaitFor<v1::Estimate>(
        [&](auto done) { peers_->Estimate("ltx", v1::Generation(), is_job, std::move(done)); });
  }
  std::vector<std::string> Groups() {
    using Lists = std::vector<std::vector<v1::WorkerGroup>>;
    const auto lists = WaitFor<Lists>([&](auto done) { peers_->ListGroups(std::move(done)); });
    std::vector<std::string> groups;
    for (const auto& list : *lists) {
      for (const v1::WorkerGroup& group : list) groups.push_back(group.id() + group.state());
    }
    return groups;
  }

  TemporaryDirectory directory_;
  v1::FrontendConfig config_;
  FakeRecords records_;
  std::unique_ptr<Peers> peers_;
};

v1::Estimate EstimateOf(double seconds) {
  v1::Estimate estimate;
  estimate.set_seconds(seconds);
  return estimate;
}

TEST_F(PeersTest, NewsReachesAllOthersAndNobodyElse) {
  OtherFrontend a("a", config_), b("b", config_), dead("dead", config_);
  Start({{.id = "me", .peer_address = "127.0.0.1:1"}, {.id = "mute"}, a.entry(), b.entry(), dead.entry()});
  dead.Stop();
  for (int i = 0; i < 100; ++i) {
    v1::News news;
    news.add_changed(absl::StrCat("job ", i));
    if (i == 50) news.set_queued(true);
    if (i == 60) news.set_cancelled(true);
    peers_->Tell(news);
  }
  for (OtherFrontend* other : {&a, &b}) {
    const v1::News news = other->AwaitNews(100);
    EXPECT_EQ(news.changed_size(), 100);
    EXPECT_EQ(news.changed(99), "job 99");
    EXPECT_TRUE(news.queued());
    EXPECT_TRUE(news.cancelled());
  }
}

TEST_F(PeersTest, AnEstimateIsOfTheFrontendThatHasAGroup) {
  OtherFrontend a("a", config_), b("b", config_), dead("dead", config_);
  Start({dead.entry(), a.entry(), b.entry()});
  dead.Stop();
  EXPECT_THAT(Estimate(), StatusIs(absl::StatusCode::kUnavailable));
  for (OtherFrontend* other : {&a, &b}) {
    other->SetEstimate(EstimateOf(7));
    const auto estimate = Estimate(/*is_job=*/true);
    ASSERT_THAT(estimate, IsOk());
    EXPECT_EQ(estimate->seconds(), 7);
    EXPECT_EQ(other->asked().back().model(), "ltx");
    EXPECT_TRUE(other->asked().back().is_job());
    other->SetEstimate(absl::UnavailableError("its group was lost"));
  }
  a.SetEstimate(absl::InvalidArgumentError("generation.width: too large"));
  EXPECT_THAT(Estimate(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("width")));
}

TEST_F(PeersTest, AFrontendThatIsGoneIsAskedNoMore) {
  OtherFrontend a("a", config_);
  Start({a.entry()});
  EXPECT_THAT(Groups(), ElementsAre("of a"));
  records_.Set({});
  EXPECT_THAT(Groups(), SizeIs(0));
  EXPECT_THAT(Estimate(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no other frontend has a group")));
}

TEST_F(PeersTest, AFrontendThatWasStartedAgainIsOne) {
  OtherFrontend a("a", config_);
  FrontendEntry before = a.entry();
  before.id = "a, before it was started again";
  config_.set_peer_address("127.0.0.1:1");
  Start({a.entry(), before, {.id = "me, before I was started again", .peer_address = "127.0.0.1:1"}});
  EXPECT_THAT(Groups(), ElementsAre("of a"));
}

TEST_F(PeersTest, AFrontendThatDoesNotAnswerIsListed) {
  OtherFrontend a("a", config_), b("b", config_);
  Start({a.entry(), b.entry()});
  b.Stop();
  EXPECT_THAT(Groups(), testing::UnorderedElementsAre("of a", "unreachable"));
}

TEST_F(PeersTest, AGroupIsChangedWhereItIs) {
  OtherFrontend a("a", config_), b("b", config_);
  Start({a.entry(), b.entry()});
  v1::WorkerGroupRequest request;
  request.set_id("one");
  request.set_frontend(b.entry().peer_address);
  const auto drained = WaitFor<v1::WorkerGroup>([&](auto done) { peers_->DrainGroup(request, std::move(done)); });
  ASSERT_THAT(drained, IsOk());
  EXPECT_EQ(drained->state(), "draining");
  EXPECT_THAT(WaitFor<v1::WorkerGroup>([&](auto done) { peers_->RestartGroup(request, std::move(done)); }),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no such group")));
  request.set_frontend("127.0.0.1:1");
  EXPECT_THAT(WaitFor<v1::WorkerGroup>([&](auto done) { peers_->DrainGroup(request, std::move(done)); }),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no frontend has the peer address")));
}

TEST_F(PeersTest, ACallWithoutAValidTokenLearnsNothing) {
  OtherFrontend a("a", config_);
  a.SetEstimate(EstimateOf(7));
  config_.set_peer_token_file(Write("others", "a token of other frontends\n"));
  Start({a.entry()});
  EXPECT_THAT(Estimate(), StatusIs(absl::StatusCode::kUnavailable)) << "a client's own token is a different thing";
  EXPECT_THAT(Groups(), ElementsAre("unreachable"));
  EXPECT_THAT(a.asked(), SizeIs(0));
}

TEST_F(PeersTest, AnOlderTokenIsAccepted) {
  OtherFrontend a("a", config_);
  a.SetEstimate(EstimateOf(7));
  config_.set_peer_token_file(Write("others", "an older token of frontends\n"));
  Start({a.entry()});
  EXPECT_THAT(Estimate(), IsOk());
}

TEST_F(PeersTest, WithTlsBothSidesProveWhoTheyAre) {
  const TestCertificate own = MakeCertificate({.name = "frontends.example"}),
                        stranger = MakeCertificate({.name = "frontends.example"});
  config_.mutable_peer_tls()->set_certificate_file(Write("cert", own.certificate));
  config_.mutable_peer_tls()->set_key_file(Write("key", own.key));
  config_.mutable_peer_tls()->set_client_ca_file(Write("ca", own.certificate));
  OtherFrontend a("a", config_);
  a.SetEstimate(EstimateOf(7));
  config_.set_peer_ca_file(directory_.File("ca"));
  Start({a.entry()});
  EXPECT_THAT(Estimate(), StatusIs(absl::StatusCode::kUnavailable)) << "the certificate has another name";
  peers_->Stop();
  config_.set_peer_server_name("frontends.example");
  Start({a.entry()});
  EXPECT_THAT(Estimate(), IsOk());
  peers_->Stop();
  config_.mutable_peer_tls()->set_certificate_file(Write("cert", stranger.certificate));
  config_.mutable_peer_tls()->set_key_file(Write("key", stranger.key));
  Start({a.entry()});
  EXPECT_THAT(Estimate(), StatusIs(absl::StatusCode::kUnavailable));
}

v1::VideoEvent Step(const std::string& id, int step) {
  v1::VideoEvent event;
  event.set_video_id(id);
  event.mutable_step()->set_step(step);
  event.mutable_step()->set_stage("denoise");
  return event;
}

v1::VideoEvent Preview(const std::string& id) {
  v1::VideoEvent event;
  event.set_video_id(id);
  event.mutable_preview()->set_image("jpeg");
  return event;
}

TEST_F(PeersTest, AnAskerGetsOnlyWhatItDoesNotHave) {
  EventHub hub(Clock::Real(), absl::Hours(1), 10);
  v1::ProgressRequest request;
  (*request.mutable_known())["job"] = 0;
  hub.PublishStep(Step("job", 1));
  v1::ProgressReply reply = ProgressHere(hub, request);
  ASSERT_EQ(reply.events_size(), 1);
  EXPECT_EQ(reply.events(0).step().step(), 1);
  (*request.mutable_known())["job"] = reply.versions().at("job");
  reply = ProgressHere(hub, request);
  EXPECT_EQ(reply.events_size(), 0);
  EXPECT_EQ(reply.running_size(), 1);
  EXPECT_TRUE(reply.versions().empty());
  hub.PublishStep(Preview("job"));
  reply = ProgressHere(hub, request);
  ASSERT_EQ(reply.events_size(), 1) << "the step was sent before";
  EXPECT_EQ(reply.events(0).preview().image(), "jpeg");
  EXPECT_GT(reply.versions().at("job"), request.known().at("job"));
}

TEST_F(PeersTest, StepsAndPreviewsReachInterestedClients) {
  OtherFrontend a("a", config_);
  EventHub hub(Clock::Real(), absl::Hours(1), 10);
  absl::Mutex mu;
  int woken = 0;
  const auto watch = *hub.Subscribe("job", [&] {
    absl::MutexLock lock(&mu);
    ++woken;
  });
  auto next = [&, seen = 0]() mutable {
    for (;;) {
      if (auto event = watch->Next()) return *event;
      absl::MutexLock lock(&mu);
      const auto more = [&] { return woken > seen; };
      mu.Await(absl::Condition(&more));
      seen = woken;
    }
  };
  a.hub().PublishStep(Step("job", 1));
  a.hub().PublishStep(Step("of nobody's interest", 1));
  Start({a.entry()});
  const ProgressRelay relay(hub, *peers_, absl::Milliseconds(5));
  EXPECT_EQ(next().step().step(), 1);
  a.hub().PublishStep(Preview("job"));
  EXPECT_EQ(next().preview().image(), "jpeg");
  a.hub().PublishStep(Step("job", 2));
  v1::Video video;
  video.set_id("job");
  video.set_state(v1::Video::RUNNING);
  while (video.progress().step() != 2) hub.AddLatestStep(video);
  watch->Close();
  v1::Video other = video;
  other.set_id("of nobody's interest");
  other.clear_progress();
  while (!other.has_progress()) hub.AddLatestStep(other);  // now somebody asks
  EXPECT_EQ(other.progress().step(), 1);

  v1::VideoEvent end;
  end.set_video_id("of nobody's interest");
  end.mutable_state()->set_state(v1::Video::QUEUED);
  a.hub().Publish(end);
  while (other.has_progress()) {
    other.clear_progress();
    hub.AddLatestStep(other);
  }
  peers_->Stop();
}

}  // namespace
}  // namespace kinora
