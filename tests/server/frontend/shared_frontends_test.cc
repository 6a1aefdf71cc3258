// Several kinora-frontend processes with one PostgreSQL database and one S3 bucket.
#include "tests/server/frontend/shared_frontends.h"

#include <gmock/gmock.h>

#include <memory>
#include <set>
#include <thread>

#include "server/common/sha256.h"

namespace kinora {
namespace {

using testing::HasSubstr;

TEST_F(SharedFrontends, AJobOfOneRunsAtTheGroupOfAnotherAndIsServedByBoth) {
  const auto a = Serve(), b = Serve();
  const auto worker = b->Join("one");  // a has no group, and learns of the model from the database
  const std::string id = a->Create();
  std::vector<v1::VideoEvent> events;
  std::thread watcher([&] {
    v1::WatchVideoRequest request;
    request.set_id(id);
    grpc::ClientContext context;
    const auto watch = a->stub().WatchVideo(&context, request);
    v1::VideoEvent event;
    while (watch->Read(&event)) events.push_back(event);
    EXPECT_TRUE(watch->Finish().ok());
  });
  const v1::Run run = worker->AwaitRun();
  EXPECT_EQ(run.video_id(), id);
  worker->SendStage(run, "denoise", 8);
  worker->Complete(run, "bytes");
  watcher.join();
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().terminal().state(), v1::Video::COMPLETED);
  std::set<int64_t> sequences;
  for (const v1::VideoEvent& event : events) {
    const bool is_new = event.sequence() == 0 || sequences.insert(event.sequence()).second;
    EXPECT_TRUE(is_new) << event.ShortDebugString();
  }
  EXPECT_EQ(static_cast<int64_t>(sequences.size()), events.back().sequence()) << "none is missing";
  EXPECT_EQ(a->Download(id), "bytes");
  EXPECT_EQ(b->Download(id), "bytes");
  EXPECT_EQ(a->Get(id).SerializeAsString(), b->Get(id).SerializeAsString());
}

TEST_F(SharedFrontends, EachJobRunsOnce) {
  const auto a = Serve(), b = Serve();
  const auto of_a = a->Join("one"), of_b = b->Join("two");
  std::vector<std::string> ids(20);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = i % 2 == 0 ? a->Create() : b->Create();
  std::thread other([&] {
    while (const auto message = of_b->NextWithin(absl::Seconds(8))) {
      if (message->has_run()) of_b->Complete(message->run(), message->run().video_id());
    }
  });
  while (const auto message = of_a->NextWithin(absl::Seconds(8))) {
    if (message->has_run()) of_a->Complete(message->run(), message->run().video_id());
  }
  other.join();
  for (const std::string& id : ids) {
    const v1::Video video = a->Get(id);
    EXPECT_EQ(video.state(), v1::Video::COMPLETED);
    EXPECT_EQ(video.attempt(), 1);
    EXPECT_EQ(b->Download(id), id);
  }
}

TEST_F(SharedFrontends, ACancelAtOneEndsTheRunAtAnother) {
  const auto a = Serve(), b = Serve();
  const auto worker = b->Join("one");
  const std::string id = b->Create();
  const v1::Run run = worker->AwaitRun();
  a->Cancel(id);
  const v1::FrontendMessage message = worker->Next();
  EXPECT_TRUE(message.has_cancel()) << message.ShortDebugString();
  worker->End(run, absl::CancelledError("cancelled"));
  EXPECT_EQ(a->AwaitEnd(id).state(), v1::Video::CANCELLED);
}

TEST_F(SharedFrontends, AnInputThatOneHasReceivedIsKnownToAll) {
  const auto a = Serve(), b = Serve();
  const auto worker = b->Join("one");
  const std::string png = "\x89PNG\r\n\x1a\n" + std::string(50'000, 'p');
  v1::Input input, again;
  v1::Video video;
  EXPECT_THAT(b->CreateWithInput(Sha256Hex(png), &video).error_message(), HasSubstr("no input with this id is stored"));
  ASSERT_TRUE(a->Upload(png, &input).ok());
  ASSERT_TRUE(b->Upload(png, &again).ok());
  EXPECT_EQ(again.id(), input.id());
  const grpc::Status created = b->CreateWithInput(input.id(), &video);
  ASSERT_TRUE(created.ok()) << created.error_message();
  const v1::Run run = worker->AwaitRun();
  v1::WorkerMessage message;
  message.mutable_input_fetch()->set_video_id(run.video_id());
  message.mutable_input_fetch()->set_attempt(run.attempt());
  message.mutable_input_fetch()->set_input_id(input.id());
  worker->Send(message);
  EXPECT_TRUE(worker->Next().input_piece().data() == png);
}

TEST_F(SharedFrontends, AnInputExpiresWhenAllHaveForgottenIt) {
  const auto a = Serve({"--input-ttl-seconds=2", "--sweep-interval-seconds=0.2"}), b = Serve();
  const std::string png = "\x89PNG\r\n\x1a\n" + std::string(50'000, 'p');
  v1::Input input;
  ASSERT_TRUE(a->Upload(png, &input).ok());
  ASSERT_TRUE(b->Upload(png, &input).ok());  // for 7 days from now
  v1::Input brief;
  ASSERT_TRUE(a->Upload(png + "x", &brief).ok());
  EXPECT_TRUE(SharingFrontend::Eventually([&] { return !a->Knows(brief.id()); })) << "a sweeps";
  EXPECT_TRUE(a->Knows(input.id()));
  EXPECT_TRUE(b->Knows(input.id()));
  EXPECT_FALSE(b->Knows(brief.id()));
}

TEST_F(SharedFrontends, KillNineOfOneLeavesItsJobsToTheOther) {
  const auto a = Serve();
  auto b = Serve();
  auto worker = b->Join("one");
  const std::string id = a->Create();
  EXPECT_EQ(worker->AwaitRun().video_id(), id);
  EXPECT_EQ(b->End(SIGKILL), -SIGKILL);
  worker.reset();
  worker = a->Join("two");
  const v1::Run run = worker->AwaitRun();  // once the lease is over
  EXPECT_EQ(run.video_id(), id);
  EXPECT_EQ(run.attempt(), 2);
  worker->Complete(run, "bytes");
  EXPECT_EQ(a->AwaitEnd(id).state(), v1::Video::COMPLETED);
}

// As behind an address for both, which leads a client elsewhere when its stream breaks.
TEST_F(SharedFrontends, AClientThatWatchesOnAtAnotherKeepsItsJobAndOneThatIsGoneDoesNot) {
  const std::vector<std::string> flags = {"--disconnect-grace-seconds=0.5", "--worker-heartbeat-timeout-seconds=60"};
  const auto a = Serve(flags), b = Serve(flags);
  const auto worker = b->Join("one");
  const auto generate = [&] {  // and breaks the stream
    v1::CreateVideoRequest request;
    request.mutable_generation()->set_prompt("a kite");
    grpc::ClientContext context;
    const auto stream = a->stub().GenerateVideo(&context, request);
    v1::VideoEvent event;
    EXPECT_TRUE(stream->Read(&event));
    context.TryCancel();
    while (stream->Read(&event)) continue;
    stream->Finish();
    return event.video_id();
  };
  const std::string kept = generate();
  const v1::Run run = worker->AwaitRun();
  grpc::ClientContext context;
  v1::WatchVideoRequest request;
  request.set_id(kept);
  auto watch = b->stub().WatchVideo(&context, request);
  const std::string left = generate();  // waits behind the other
  EXPECT_TRUE(SharingFrontend::Eventually([&] { return a->Get(left).has_end_time(); }));
  EXPECT_EQ(a->Get(left).state(), v1::Video::CANCELLED);
  EXPECT_EQ(a->Get(kept).state(), v1::Video::RUNNING) << "it was left before the other";

  context.TryCancel();
  v1::VideoEvent event;
  while (watch->Read(&event)) continue;
  watch->Finish();
  const v1::FrontendMessage message = worker->Next();
  EXPECT_TRUE(message.has_cancel()) << "now nobody watches: " << message.ShortDebugString();
  worker->End(run, absl::CancelledError("cancelled"));
  EXPECT_EQ(a->AwaitEnd(kept).state(), v1::Video::CANCELLED);
}

TEST_F(SharedFrontends, AWatchOfAJobThatAnotherDeletesEnds) {
  const auto a = Serve(), b = Serve();
  const std::string id = [&] {
    const auto worker = b->Join("one");
    return a->Create();
  }();
  std::thread watcher([&] {
    v1::WatchVideoRequest request;
    request.set_id(id);
    grpc::ClientContext context;
    const auto watch = b->stub().WatchVideo(&context, request);
    v1::VideoEvent event;
    while (watch->Read(&event)) continue;
    watch->Finish();
  });
  v1::DeleteVideoRequest deletion;
  deletion.set_id(id);
  deletion.set_cancel(true);
  google::protobuf::Empty empty;
  grpc::ClientContext context;
  EXPECT_TRUE(a->stub().DeleteVideo(&context, deletion, &empty).ok());
  watcher.join();
}

TEST_F(SharedFrontends, AFrontendWithAnotherBucketIsKeptOut) {
  const auto a = Serve();
  flags_[3] += "-other";
  SharingFrontend other;
  std::vector<std::string> arguments = {"--state-directory", other.File("state")};
  arguments.insert(arguments.end(), flags_.begin(), flags_.end());
  EXPECT_EQ(other.Run(arguments), 1);
  EXPECT_THAT(other.LogText(), HasSubstr("another frontend uses the database with artifacts elsewhere"));
}

TEST_F(SharedFrontends, AFrontendWithAFolderOfItsOwnIsKeptOut) {
  const auto a = Serve();
  SharingFrontend alone;
  EXPECT_EQ(alone.Run({"--state-directory", alone.File("state"), "--store", url_, "--lease-seconds=1"}), 1);
  EXPECT_THAT(alone.LogText(), HasSubstr("Frontends can share a database if their artifacts are in one bucket"));
}

}  // namespace
}  // namespace kinora
