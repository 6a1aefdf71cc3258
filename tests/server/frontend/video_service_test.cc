// The public API over real gRPC: a complete frontend in this process, with scripted workers.
#include <gtest/gtest.h>

#include <thread>

#include "server/common/sha256.h"
#include "server/common/status_details.h"
#include "server/net/grpc_status.h"
#include "tests/server/frontend/frontend_fixture.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class VideoServiceTest : public FrontendTest {
 protected:
  VideoServiceTest() { config_.set_disconnect_grace_seconds(0.1); }
};

std::vector<v1::VideoEvent::EventCase> Kinds(const std::vector<v1::VideoEvent>& events) {
  std::vector<v1::VideoEvent::EventCase> kinds;
  kinds.reserve(events.size());
  for (const auto& event : events) kinds.push_back(event.event_case());
  return kinds;
}

TEST_F(VideoServiceTest, AJobRunsAndItsStreamShowsEachStepUntilTheTerminalEvent) {
  Start();
  const auto worker = StartWorker();
  const auto context = Context();
  const auto stream = stub_->GenerateVideo(context.get(), Request("a red kite"));
  const v1::Run run = worker->AwaitRun();
  EXPECT_EQ(run.generation().prompt(), "a red kite");
  EXPECT_EQ(run.generation().width(), 64);
  EXPECT_EQ(run.generation().negative_prompt(), "blurry");
  EXPECT_TRUE(run.generation().has_seed());

  v1::VideoEvent event;
  const auto next = [&] {
    v1::VideoEvent read;
    KINORA_CHECK(stream->Read(&read)) << stream->Finish().error_message();
    return read;
  };
  EXPECT_TRUE((event = next()).has_snapshot());
  EXPECT_EQ((event = next()).state().state(), v1::Video::QUEUED);
  EXPECT_EQ(event.sequence(), 1);
  EXPECT_EQ((event = next()).state().state(), v1::Video::RUNNING);
  EXPECT_EQ(event.sequence(), 2);
  worker->SendStage(run, "denoise", 4);
  EXPECT_EQ((event = next()).stage().stage(), "denoise");
  for (int step = 1; step <= 4; ++step) {
    worker->SendStep(run, "denoise", step, 4);
    event = next();
    EXPECT_EQ(event.step().step(), step);
    EXPECT_EQ(event.sequence(), 3);  // steps have no sequence of their own
    EXPECT_EQ(Get(run.video_id())->progress().step(), step);
  }
  const std::string bytes(700'000, 'm');  // three chunks
  worker->Complete(run, bytes);
  event = next();
  ASSERT_TRUE(event.has_terminal()) << event.ShortDebugString();
  EXPECT_EQ(event.terminal().state(), v1::Video::COMPLETED);
  EXPECT_FALSE(stream->Read(&event));
  EXPECT_THAT(FromGrpcStatus(stream->Finish()), IsOk());

  KINORA_ASSERT_OK_AND_ASSIGN(const v1::Video video, Get(run.video_id()));
  EXPECT_EQ(video.artifacts(0).sha256(), Sha256Hex(bytes));
  EXPECT_THAT(Download(run.video_id()), IsOkAndHolds(bytes));
  EXPECT_THAT(Download(run.video_id(), 699'990, "video.mp4"), IsOkAndHolds(std::string(10, 'm')));
  EXPECT_THAT(Download(run.video_id(), 700'000), IsOkAndHolds(std::string()));
  EXPECT_THAT(Download(run.video_id(), 700'001), StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("offset")));
  EXPECT_THAT(Download(run.video_id(), 0, "x"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("artifact_id")));
}

TEST_F(VideoServiceTest, TheSameRequestIdReplaysAndSaysSo) {
  Start();
  StartWorker();
  v1::CreateVideoRequest request = Request();
  request.set_request_id("key");
  KINORA_ASSERT_OK_AND_ASSIGN(const v1::Video first, Create(request));
  const auto context = Context();
  v1::Video again;
  ASSERT_TRUE(stub_->CreateVideo(context.get(), request, &again).ok());
  EXPECT_EQ(again.id(), first.id());
  EXPECT_EQ(again.effective().seed(), first.effective().seed());
  EXPECT_EQ(context->GetServerInitialMetadata().count("x-kinora-replayed"), 1u);
  request.mutable_generation()->set_prompt("another");
  const auto refused = Create(request);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("request_id")));
  EXPECT_EQ(ErrorReason(refused.status()), "REQUEST_ID_REUSED");
}

TEST_F(VideoServiceTest, AResumedWatchGetsASnapshotAndThenWhatItMissed) {
  Start();
  const auto worker = StartWorker();
  KINORA_ASSERT_OK_AND_ASSIGN(const v1::Video created, Create(Request()));
  const v1::Run run = worker->AwaitRun();
  worker->SendStage(run, "encode", 0);
  worker->SendStage(run, "denoise", 4);
  worker->Complete(run, "bytes");
  AwaitEnd(created.id());
  using Event = v1::VideoEvent;
  EXPECT_THAT(Kinds(WatchAll(created.id())), ElementsAre(Event::kSnapshot, Event::kState, Event::kState, Event::kStage,
                                                         Event::kStage, Event::kTerminal));
  const auto events = WatchAll(created.id(), 3);
  EXPECT_THAT(Kinds(events), ElementsAre(Event::kSnapshot, Event::kStage, Event::kTerminal));
  EXPECT_EQ(events[0].sequence(), 3);
  EXPECT_EQ(events[1].sequence(), 4);

  v1::WatchVideoRequest request;
  request.set_id(created.id());
  request.set_after_sequence(99);
  const auto context = Context();
  const auto reader = stub_->WatchVideo(context.get(), request);
  v1::VideoEvent event;
  EXPECT_FALSE(reader->Read(&event));
  EXPECT_THAT(FromGrpcStatus(reader->Finish()), StatusIs(absl::StatusCode::kInvalidArgument,
                                                         AllOf(HasSubstr("after_sequence"), HasSubstr("nearest: 5"))));
}

// A client whose stream broke just before the end cannot know that it has received the last event.
TEST_F(VideoServiceTest, AWatchResumedAfterTheLastEventGetsItAgainAndEnds) {
  config_.set_heartbeat_interval_seconds(0.05);
  Start();
  const auto worker = StartWorker();
  using Event = v1::VideoEvent;
  const auto expect_the_end_again = [&](const std::string& id, v1::Video::State state) {
    const auto seen = WatchAll(id);
    const auto again = WatchAll(id, seen.back().sequence());
    ASSERT_THAT(Kinds(again), ElementsAre(Event::kSnapshot, Event::kTerminal)) << id;
    EXPECT_EQ(again[1].terminal().state(), state);
    EXPECT_EQ(again[1].ShortDebugString(), seen.back().ShortDebugString());
  };
  const std::string completed = Create(Request())->id();
  worker->Complete(worker->AwaitRun(), "bytes");
  expect_the_end_again(completed, v1::Video::COMPLETED);
  const std::string failed = Create(Request())->id();
  worker->End(worker->AwaitRun(), absl::InternalError("broken"));
  expect_the_end_again(failed, v1::Video::FAILED);
  Create(Request("blocker")).IgnoreError();
  worker->AwaitRun();
  const std::string cancelled = Create(Request())->id();
  ASSERT_THAT(Cancel(cancelled), IsOk());
  expect_the_end_again(cancelled, v1::Video::CANCELLED);
  while (Metrics()["kinora_watchers"] != 0) std::this_thread::yield();  // no watch stays open
}

TEST_F(VideoServiceTest, CancelReachesTheWorkerAndTheQueue) {
  Start();
  const auto worker = StartWorker();
  KINORA_ASSERT_OK_AND_ASSIGN(const v1::Video running, Create(Request()));
  const v1::Run run = worker->AwaitRun();
  KINORA_ASSERT_OK_AND_ASSIGN(const v1::Video waiting, Create(Request()));
  EXPECT_EQ(Get(waiting.id())->queue_position(), 1);
  KINORA_ASSERT_OK_AND_ASSIGN(v1::Video video, Cancel(waiting.id()));
  EXPECT_EQ(video.state(), v1::Video::CANCELLED);

  KINORA_ASSERT_OK_AND_ASSIGN(video, Cancel(running.id()));
  EXPECT_EQ(video.state(), v1::Video::RUNNING);
  EXPECT_EQ(worker->Next().cancel().video_id(), running.id());
  worker->End(run, absl::CancelledError("at step 2"));
  EXPECT_EQ(AwaitEnd(running.id()).state(), v1::Video::CANCELLED);
  KINORA_ASSERT_OK_AND_ASSIGN(video, Cancel(running.id()));
  EXPECT_EQ(video.state(), v1::Video::CANCELLED);
  EXPECT_THAT(Cancel("nobody"), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(VideoServiceTest, ABrokenGenerateStreamCancelsItsJobUnlessDetachedOrWatched) {
  Start();
  const auto worker = StartWorker();
  const auto blocker = Create(Request("blocker"));  // so that the others wait
  worker->AwaitRun();
  const auto generate_and_leave = [&](bool detach) {
    v1::CreateVideoRequest request = Request();
    request.set_detach(detach);
    const auto context = Context();
    const auto stream = stub_->GenerateVideo(context.get(), request);
    v1::VideoEvent event;
    KINORA_CHECK(stream->Read(&event));
    context->TryCancel();
    stream->Finish();
    return event.video_id();
  };
  const std::string left = generate_and_leave(false), detached = generate_and_leave(true);
  while (Get(left)->state() == v1::Video::QUEUED) std::this_thread::yield();  // not a watch, which would keep the job
  EXPECT_EQ(Get(left)->state(), v1::Video::CANCELLED);
  EXPECT_EQ(Get(detached)->state(), v1::Video::QUEUED);
}

TEST_F(VideoServiceTest, ErrorsNameTheFieldAndTheNearestValueInTheirDetails) {
  Start();
  StartWorker();
  v1::CreateVideoRequest request = Request();
  request.mutable_generation()->set_width(100);
  request.mutable_generation()->set_num_frames(10);
  const absl::Status status = Create(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  const auto violations = Violations(status);
  ASSERT_THAT(violations, SizeIs(2));
  EXPECT_EQ(violations[0].field, "generation.width");
  EXPECT_THAT(violations[0].description, HasSubstr("nearest: 96"));
  EXPECT_EQ(violations[1].field, "generation.num_frames");
  EXPECT_THAT(violations[1].description, HasSubstr("nearest: 9"));

  request = Request(std::string(1 << 20, 'p'));
  EXPECT_THAT(Create(request), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("generation.prompt")));
  request = Request();
  request.mutable_generation()->set_recipe(v1::Generation::HQ);
  EXPECT_THAT(Create(request), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("generation.recipe")));
  request = Request();
  request.set_model("huge");
  EXPECT_THAT(Create(request), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("\"tiny\"")));
  request = Request();
  request.GetReflection()->MutableUnknownFields(&request)->AddVarint(77, 1);
  EXPECT_THAT(Create(request), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("#77")));
  EXPECT_THAT(Create(Request("\xff\xfe")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("generation.prompt: invalid UTF-8")));
}

TEST_F(VideoServiceTest, ListsPagesDeletesAndForgets) {
  Start();
  const auto worker = StartWorker();
  std::vector<std::string> ids;
  for (int i = 0; i < 3; ++i) {
    ids.push_back(Create(Request())->id());
    worker->Complete(worker->AwaitRun(), "bytes");
    AwaitEnd(ids.back());
  }
  v1::ListVideosRequest list;
  list.set_page_size(2);
  v1::ListVideosResponse page;
  ASSERT_TRUE(stub_->ListVideos(Context().get(), list, &page).ok());
  ASSERT_EQ(page.videos_size(), 2);
  EXPECT_EQ(page.videos(0).id(), ids[2]);
  list.set_page_token(page.next_page_token());
  ASSERT_TRUE(stub_->ListVideos(Context().get(), list, &page).ok());
  ASSERT_EQ(page.videos_size(), 1);
  EXPECT_EQ(page.videos(0).id(), ids[0]);
  EXPECT_EQ(page.next_page_token(), "");
  list.set_page_token("nonsense");
  EXPECT_THAT(FromGrpcStatus(stub_->ListVideos(Context().get(), list, &page)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("page_token")));

  ASSERT_TRUE(std::filesystem::exists(directory_.File("state/artifacts/" + ids[0])));
  v1::DeleteVideoRequest remove;
  remove.set_id(ids[0]);
  google::protobuf::Empty nothing;
  EXPECT_TRUE(stub_->DeleteVideo(Context().get(), remove, &nothing).ok());
  EXPECT_FALSE(std::filesystem::exists(directory_.File("state/artifacts/" + ids[0])));
  EXPECT_THAT(Get(ids[0]), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(Download(ids[0]), StatusIs(absl::StatusCode::kNotFound));
  const std::string running = Create(Request())->id();
  remove.set_id(running);
  EXPECT_THAT(FromGrpcStatus(stub_->DeleteVideo(Context().get(), remove, &nothing)),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(Download(running), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("COMPLETED")));
}

TEST_F(VideoServiceTest, ListsFromTheOldestOnBehindAVideoAndByWordsOfThePrompt) {
  Start();
  StartWorker();
  std::vector<std::string> ids;
  for (const char* prompt : {"a red fox", "a kite", "a Fox in snow"}) ids.push_back(Create(Request(prompt))->id());
  const auto listed = [&](const v1::ListVideosRequest& request) -> absl::StatusOr<std::vector<std::string>> {
    v1::ListVideosResponse page;
    const grpc::Status status = stub_->ListVideos(Context().get(), request, &page);
    if (!status.ok()) return FromGrpcStatus(status);
    std::vector<std::string> found;
    for (const v1::Video& video : page.videos()) found.push_back(video.id());
    return found;
  };
  v1::ListVideosRequest request;
  request.set_ascending(true);
  EXPECT_THAT(listed(request), IsOkAndHolds(ElementsAre(ids[0], ids[1], ids[2])));
  request.set_after_id(ids[0]);
  EXPECT_THAT(listed(request), IsOkAndHolds(ElementsAre(ids[1], ids[2])));
  request.set_text("FOX a");
  EXPECT_THAT(listed(request), IsOkAndHolds(ElementsAre(ids[2])));
  request.set_page_token("after-1");
  EXPECT_EQ(Violations(listed(request).status()).at(0).field, "after_id");
  request.clear_page_token();
  request.set_after_id("nobody");
  EXPECT_THAT(listed(request), StatusIs(absl::StatusCode::kNotFound, HasSubstr("after_id: no video \"nobody\"")));
  request.clear_after_id();
  request.set_text(std::string(1 << 20, 'x'));
  EXPECT_EQ(Violations(listed(request).status()).at(0).field, "text");
  request.set_text("\xff");
  EXPECT_THAT(listed(request), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("text: invalid UTF-8")));
}

TEST_F(VideoServiceTest, AFullQueueRefusesAndPriorityDecidesWhoIsNext) {
  config_.set_queue_capacity(2);
  Start();
  const auto worker = StartWorker();
  const auto running = Create(Request("running"));
  const v1::Run run = worker->AwaitRun();
  const auto low = Create(Request("low"));
  v1::CreateVideoRequest urgent = Request("high");
  urgent.mutable_scheduling()->set_priority(5);
  const auto high = Create(urgent);
  EXPECT_EQ(high->queue_position(), 1);
  const auto refused = Create(Request("too many"));
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("queue_capacity")));
  EXPECT_EQ(ErrorReason(refused.status()), "QUEUE_FULL");
  worker->Complete(run, "x");
  EXPECT_EQ(worker->AwaitRun().video_id(), high->id());
}

TEST_F(VideoServiceTest, ADeadlineThatPassesInTheQueueFailsTheJob) {
  Start();
  const auto worker = StartWorker();
  Create(Request("running")).IgnoreError();
  worker->AwaitRun();
  v1::CreateVideoRequest request = Request();
  request.mutable_scheduling()->mutable_deadline()->set_nanos(200'000'000);
  const auto created = Create(request);
  const v1::Video video = AwaitEnd(created->id());
  EXPECT_EQ(video.state(), v1::Video::FAILED);
  EXPECT_EQ(video.error().code(), static_cast<int>(absl::StatusCode::kDeadlineExceeded));
}

TEST_F(VideoServiceTest, EstimatesAreTheWorkers) {
  Start();
  const auto worker = StartWorker();
  v1::Estimate said;
  said.set_flops(1e12);
  worker->SetEstimate(said);
  v1::Estimate estimate;
  EXPECT_THAT(FromGrpcStatus(stub_->EstimateVideo(Context().get(), Request(), &estimate)), IsOk());
  EXPECT_EQ(worker->LastEstimateRequest().generation().num_frames(), 9);
  EXPECT_EQ(estimate.flops(), 1e12);
  EXPECT_EQ(estimate.effective().width(), 64);
}

TEST_F(VideoServiceTest, AJobThatDoesNotFitIsRefusedWithTheNearestThatDoes) {
  Start();
  const auto worker = StartWorker();
  v1::Estimate said;
  said.add_problems("it needs 2.00 GiB for activations, 1.00 GiB are reserved");
  said.mutable_nearest()->set_width(64);
  said.mutable_nearest()->set_height(64);
  said.mutable_nearest()->set_num_frames(1);
  worker->SetEstimate(said);
  const absl::Status refused = Create(Request()).status();
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kInvalidArgument,
                                AllOf(HasSubstr("with 9 frames does not fit: it needs 2.00 GiB"), HasSubstr(": 1"))));
  EXPECT_EQ(ErrorReason(refused), "SHAPE_TOO_LARGE");
  ASSERT_THAT(Violations(refused), SizeIs(1));
  EXPECT_EQ(Violations(refused)[0].field, "generation.num_frames");
  const auto context = Context();
  const auto stream = stub_->GenerateVideo(context.get(), Request());
  v1::VideoEvent event;
  EXPECT_FALSE(stream->Read(&event));
  EXPECT_THAT(FromGrpcStatus(stream->Finish()), StatusIs(absl::StatusCode::kInvalidArgument));
  v1::ListVideosResponse listed;
  ASSERT_TRUE(stub_->ListVideos(Context().get(), {}, &listed).ok());
  EXPECT_THAT(listed.videos(), SizeIs(0));
  EXPECT_EQ(Metrics()["kinora_admission_rejected_total{reason=\"shape_too_large\"}"], 2);
}

TEST_F(VideoServiceTest, ARequestThatIsSentAgainHasItsJobWhateverFitsNow) {
  Start();
  auto worker = StartWorker();
  v1::Estimate said;
  said.set_fits(true);
  worker->SetEstimate(said);
  v1::CreateVideoRequest request = Request();
  request.set_request_id("once");
  KINORA_ASSERT_OK_AND_ASSIGN(const v1::Video created, Create(request));
  worker->Complete(worker->AwaitRun(), "bytes");
  AwaitEnd(created.id());
  worker.reset();
  worker = StartWorker("later");  // with less memory
  said.set_fits(false);
  worker->SetEstimate(said);
  EXPECT_EQ(ErrorReason(Create(Request()).status()), "SHAPE_TOO_LARGE");
  const auto again = Create(request);
  ASSERT_THAT(again.status(), IsOk());
  EXPECT_EQ(again->id(), created.id());
}

TEST_F(VideoServiceTest, AJobKeepsWhatItWasEstimatedToTake) {
  Start();
  const auto worker = StartWorker();
  v1::Estimate said;
  said.set_fits(true);
  said.set_seconds(42.5);
  worker->SetEstimate(said);
  KINORA_ASSERT_OK_AND_ASSIGN(const v1::Video created, Create(Request()));
  EXPECT_EQ(created.estimated_seconds(), 42.5);
  worker->Complete(worker->AwaitRun(), "bytes");
  EXPECT_EQ(AwaitEnd(created.id()).estimated_seconds(), 42.5);
}

TEST_F(VideoServiceTest, WhileNoGroupIsUpTheDescriptionAloneDecides) {
  Start();
  { const auto described = StartWorker(); }
  while (HttpGet("/readyz") == "ok\n") std::this_thread::yield();
  KINORA_ASSERT_OK_AND_ASSIGN(const v1::Video created, Create(Request()));
  EXPECT_EQ(created.estimated_seconds(), 0);
  v1::CreateVideoRequest large = Request();
  large.mutable_generation()->set_num_frames(8 * 100'000 + 1);
  EXPECT_EQ(ErrorReason(Create(large).status()), "SHAPE_TOO_LARGE");
}

TEST_F(VideoServiceTest, ASilentWatchHasHeartbeatsAndWatchesAreBounded) {
  config_.set_heartbeat_interval_seconds(0.1);
  config_.set_max_watchers(1);
  Start();
  const auto worker = StartWorker();
  const std::string id = Create(Request())->id();
  const v1::Run run = worker->AwaitRun();
  v1::WatchVideoRequest request;
  request.set_id(id);
  const auto context = Context();
  const auto reader = stub_->WatchVideo(context.get(), request);
  v1::VideoEvent event;
  while (reader->Read(&event) && !event.has_heartbeat()) {
  }
  EXPECT_TRUE(event.has_heartbeat());
  EXPECT_EQ(event.sequence(), 2);
  const auto second_context = Context();
  const auto second = stub_->WatchVideo(second_context.get(), request);
  EXPECT_FALSE(second->Read(&event));
  EXPECT_THAT(FromGrpcStatus(second->Finish()),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("max_watchers")));
}

}  // namespace
}  // namespace kinora
