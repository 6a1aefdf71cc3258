// kinora-frontend with its artifacts in an S3 bucket: the binary, and a server that fails.
#include <gmock/gmock.h>

#include <cstdlib>
#include <thread>

#include "absl/strings/str_cat.h"
#include "server/common/sha256.h"
#include "server/frontend/artifacts/bucket_parts.h"
#include "server/s3/s3_artifact_store.h"
#include "tests/server/frontend/frontend_process.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/s3_server.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class BucketProcess : public FrontendProcess {
 protected:
  void SetUp() override {
    if (!S3Server::IsInstalled()) GTEST_SKIP() << "moto is not installed";
    server_ = &S3Server::Shared();
    server_->ClearFaults();
    place_ = server_->NewPlace();
    SetKeys(server_->keys());
    calls_ =
        std::make_unique<S3Calls>(LocateBucket(place_).value(), http_, credentials_, Clocks(), [](const S3Request&) {});
    bucket_ = std::make_unique<S3ArtifactStore>(*calls_, directory_.path());
  }
  void TearDown() override {
    if (server_ != nullptr) server_->ClearFaults();
  }

  static void SetKeys(const AwsKeys& keys) {
    setenv("AWS_ACCESS_KEY_ID", keys.id.c_str(), 1);
    setenv("AWS_SECRET_ACCESS_KEY", keys.secret.c_str(), 1);
  }
  std::vector<std::string> Flags() const {
    return {"--artifacts", place_.url,    "--s3-endpoint",  place_.endpoint,
            "--s3-region", place_.region, "--s3-path-style"};
  }
  void ServeFromBucket(const std::vector<std::string>& more = {}) {
    std::vector<std::string> flags = Flags();
    flags.insert(flags.end(), more.begin(), more.end());
    Serve(flags);
  }
  std::vector<std::string> KeysOf(const std::string& id) {
    const auto keys = bucket_->Keys(id);
    EXPECT_THAT(keys, IsOk());
    return keys.ok() ? *keys : std::vector<std::string>();
  }

  S3Server* server_ = nullptr;
  S3Options place_;
  HttpClient http_;
  AwsCredentials credentials_{"eu-central-1", http_, Clock::Real()};
  std::unique_ptr<S3Calls> calls_;
  std::unique_ptr<S3ArtifactStore> bucket_;
};

TEST_F(BucketProcess, AClipIsStoredServedLinkedAndDeletedThere) {
  ServeFromBucket();
  const auto worker = Join("one");
  const std::string id = Create();
  const std::string bytes(300'000, 'b');
  worker->Complete(worker->AwaitRun(), bytes);
  EXPECT_EQ(AwaitEnd(id).state(), v1::Video::COMPLETED);
  EXPECT_THAT(KeysOf(id), ElementsAre(id + "/1/video.mp4"));
  EXPECT_TRUE(Download(id) == bytes);
  EXPECT_TRUE(Download(id, 299'990) == "bbbbbbbbbb");
  EXPECT_FALSE(std::filesystem::exists(directory_.File("state/artifacts")));

  v1::GetVideoRequest request;
  request.set_id(id);
  request.set_link_seconds(60);
  v1::Video linked;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(stub_->GetVideo(&context, request, &linked).ok());
  }
  const auto fetched = HttpClient().Send({.method = "GET", .url = linked.artifacts(0).url()});
  ASSERT_THAT(fetched, IsOk());
  EXPECT_EQ(fetched->status, 200);
  EXPECT_TRUE(fetched->body == bytes);
  EXPECT_EQ(Get(id).artifacts(0).url(), "") << "only when it is asked for";
  request.set_link_seconds(604'801);
  {
    grpc::ClientContext context;
    EXPECT_EQ(stub_->GetVideo(&context, request, &linked).error_message(),
              "link_seconds: 604801 must be 0 to 604800; nearest: 604800");
  }

  v1::DeleteVideoRequest deletion;
  deletion.set_id(id);
  grpc::ClientContext context;
  google::protobuf::Empty empty;
  EXPECT_TRUE(stub_->DeleteVideo(&context, deletion, &empty).ok());
  EXPECT_THAT(KeysOf(id), IsEmpty());
}

TEST_F(BucketProcess, WithoutABucketThereAreNoLinks) {
  Serve();
  const auto worker = Join("one");
  const std::string id = Create();
  worker->Complete(worker->AwaitRun(), "bytes");
  EXPECT_EQ(AwaitEnd(id).state(), v1::Video::COMPLETED);
  v1::GetVideoRequest request;
  request.set_id(id);
  request.set_link_seconds(60);
  v1::Video video;
  grpc::ClientContext context;
  const grpc::Status status = stub_->GetVideo(&context, request, &video);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("link_seconds: artifacts are in a folder of the server"));
}

TEST_F(BucketProcess, AnInputIsUploadedPassedToTheWorkerAndRemoved) {
  ServeFromBucket({"--input-ttl-seconds=3", "--sweep-interval-seconds=0.1"});
  const std::string png = "\x89PNG\r\n\x1a\n" + std::string(200'000, 'p');
  v1::Input input;
  const grpc::Status uploaded = Upload(png, &input);
  ASSERT_TRUE(uploaded.ok()) << uploaded.error_message();
  EXPECT_THAT(KeysOf("inputs"), ElementsAre("inputs/" + input.id()));
  EXPECT_TRUE(std::filesystem::is_empty(directory_.File("state/uploads"))) << "the part is gone";
  v1::Input again;
  EXPECT_TRUE(Upload(png, &again).ok());
  EXPECT_EQ(again.id(), input.id());

  const auto worker = Join("one");
  v1::CreateVideoRequest request;
  request.mutable_generation()->set_prompt("a kite");
  request.mutable_generation()->add_conditions()->mutable_image()->set_input_id(input.id());
  v1::Video video;
  {
    grpc::ClientContext context;
    const grpc::Status created = stub_->CreateVideo(&context, request, &video);
    ASSERT_TRUE(created.ok()) << created.error_message();
  }
  const v1::Run run = worker->AwaitRun();
  v1::WorkerMessage message;
  message.mutable_input_fetch()->set_video_id(run.video_id());
  message.mutable_input_fetch()->set_attempt(run.attempt());
  message.mutable_input_fetch()->set_input_id(input.id());
  message.mutable_input_fetch()->set_offset(100'000);
  worker->Send(message);
  const v1::FrontendMessage answer = worker->Next();
  ASSERT_TRUE(answer.has_input_piece()) << answer.ShortDebugString();
  EXPECT_TRUE(answer.input_piece().data() == png.substr(100'000));
  EXPECT_TRUE(answer.input_piece().last());
  worker->Complete(run, "bytes");
  EXPECT_EQ(AwaitEnd(video.id()).state(), v1::Video::COMPLETED);
  EXPECT_TRUE(Upload(png + "unused", &again).ok());
  EXPECT_EQ(KeysOf("inputs").size(), 2u);
  EXPECT_TRUE(Eventually([&] { return KeysOf("inputs").size() == 1; })) << "it has expired";
  EXPECT_THAT(KeysOf("inputs"), ElementsAre("inputs/" + input.id())) << "a request has just named it";
}

TEST_F(BucketProcess, AnOutageDelaysAClipAndLosesNothing) {
  ServeFromBucket();
  const auto worker = Join("one");
  const std::string id = Create();
  const v1::Run run = worker->AwaitRun();
  // More failures than one request of another kind is repeated.
  server_->SetFaults(R"([{"match": "^PUT .*video.mp4", "kind": "refuse", "times": 8}])");
  worker->Complete(run, "bytes");
  const v1::Video video = AwaitEnd(id);
  EXPECT_EQ(video.state(), v1::Video::COMPLETED);
  EXPECT_EQ(video.attempt(), 1);
  EXPECT_EQ(Download(id), "bytes");
}

TEST_F(BucketProcess, KillNineWhileAClipIsSentLeavesOneClip) {
  ServeFromBucket({"--lease-seconds=1"});
  auto worker = Join("one");
  const std::string id = Create();
  const v1::Run run = worker->AwaitRun();
  server_->SetFaults(R"([{"match": "^PUT .*video.mp4", "kind": "hold", "seconds": 1}])");
  v1::WorkerMessage message;
  v1::UploadChunk& chunk = *message.mutable_upload_chunk();
  chunk.set_video_id(run.video_id());
  chunk.set_attempt(run.attempt());
  chunk.set_name("video.mp4");
  chunk.set_data("first");
  chunk.set_sha256(Sha256Hex("first"));
  worker->Send(message);
  const std::string first = absl::StrCat("PUT .*", id, "/1/video.mp4");
  EXPECT_TRUE(Eventually([&] { return server_->CountRequests(first) == 1; }));
  EXPECT_EQ(End(SIGKILL), -SIGKILL);
  worker.reset();
  EXPECT_TRUE(Eventually([&] { return !KeysOf(id).empty(); })) << "the server had the whole request";

  ServeFromBucket({"--lease-seconds=1"});
  worker = Join("two");
  const v1::Run second = worker->AwaitRun();
  EXPECT_EQ(second.attempt(), 2);
  worker->Complete(second, "second");
  EXPECT_EQ(AwaitEnd(id).state(), v1::Video::COMPLETED);
  EXPECT_EQ(Download(id), "second");
  EXPECT_TRUE(Eventually([&] { return KeysOf(id) == std::vector<std::string>{id + "/2/video.mp4"}; }));
}

TEST_F(BucketProcess, ABucketThatCannotBeReachedDoesNotStopTheStart) {
  ServeFromBucket();
  auto worker = Join("one");
  const std::string id = Create();
  worker->Complete(worker->AwaitRun(), "bytes");
  EXPECT_EQ(AwaitEnd(id).state(), v1::Video::COMPLETED);
  worker.reset();
  EXPECT_EQ(End(SIGTERM), 0);
  server_->SetFaults(R"([{"match": ".", "kind": "refuse", "times": 1000}])");
  ServeFromBucket();
  EXPECT_THAT(LogText(), HasSubstr("event=bucket_unreachable"));
  EXPECT_EQ(Get(id).state(), v1::Video::COMPLETED);
  EXPECT_THAT(Download(id), HasSubstr("video.mp4: the bucket of artifacts failed: GetObject"));
  server_->ClearFaults();
  EXPECT_EQ(Download(id), "bytes");
}

TEST_F(BucketProcess, KeysThatMayNotWriteStopTheStart) {
  SetKeys(server_->denied());
  std::vector<std::string> flags = Flags();
  flags.insert(flags.begin(), {"--state-directory", directory_.File("state")});
  EXPECT_EQ(Run(flags), 1);
  EXPECT_THAT(LogText(), HasSubstr("artifacts: bucket clips at 127.0.0.1:"));
  EXPECT_THAT(LogText(), testing::ContainsRegex("PutObject .kinora-check-[0-9a-f]+: AccessDenied"));
}

// Only objects whose names are those of inputs.
TEST_F(BucketProcess, OldInputsWithoutARecordAreRemoved) {
  const std::string known(64, 'a'), orphan(64, 'b'), young(64, 'c');
  for (const std::string& key : {known, orphan, std::string("photos/cat.png"), std::string("cat")}) {
    KINORA_ASSERT_OK_AND_ASSIGN(const auto staged, bucket_->Begin("inputs/" + key));
    EXPECT_THAT(staged->Commit(), IsOk());
  }
  FakeClock later(absl::Now() + absl::Hours(2)), now(absl::Now());
  const InputRecord record{.sha256 = known, .bytes = 1, .media_type = "image/png"};
  const auto keys = [&] { return KeysOf("inputs"); };
  const auto parts = *BucketParts::Open(directory_.File("uploads"), *bucket_, later);
  WriteFile(directory_.File("uploads/" + known), "of a complete input");
  EXPECT_EQ(parts->Reconcile({record}), 1);
  EXPECT_TRUE(Eventually([&] { return keys().size() == 3; }));
  EXPECT_THAT(keys(), testing::UnorderedElementsAre("inputs/" + known, "inputs/photos/cat.png", "inputs/cat"));
  {
    KINORA_ASSERT_OK_AND_ASSIGN(const auto staged, bucket_->Begin("inputs/" + young));
    EXPECT_THAT(staged->Commit(), IsOk());
    const auto others = *BucketParts::Open(directory_.File("uploads"), *bucket_, now);
    others->Reconcile({record});
    EXPECT_TRUE(Eventually([&] { return server_->CountRequests("list-type.*inputs") >= 2; }));
  }
  EXPECT_EQ(keys().size(), 4u) << "it may be about to be recorded";
}

TEST_F(BucketProcess, AnotherFolderForArtifactsIsUsed) {
  Serve({"--artifacts", "file://" + directory_.File("clips")});
  const auto worker = Join("one");
  const std::string id = Create();
  worker->Complete(worker->AwaitRun(), "bytes");
  EXPECT_EQ(AwaitEnd(id).state(), v1::Video::COMPLETED);
  EXPECT_EQ(ReadFile(directory_.File(absl::StrCat("clips/", id, "/1/video.mp4"))), "bytes");
  EXPECT_FALSE(std::filesystem::exists(directory_.File("state/artifacts")));
}

TEST_F(BucketProcess, AFolderOfArtifactsBelongsToOneFrontend) {
  const std::string folder = "file://" + directory_.File("clips");
  Serve({"--artifacts", folder});
  const pid_t first = std::exchange(pid_, -1);
  EXPECT_EQ(Run({"--state-directory", directory_.File("other"), "--artifacts", folder, "--http-address="}), 1);
  EXPECT_THAT(LogText(), HasSubstr("clips is in use by another frontend"));
  pid_ = first;
}

TEST_F(BucketProcess, WhatIsNoPlaceForArtifactsIsNamed) {
  const auto why = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"--state-directory", directory_.File("state")});
    EXPECT_NE(Run(flags), 0);
    return LogText();
  };
  EXPECT_THAT(why({"--artifacts=clips"}),
              HasSubstr("artifacts: \"clips\" is neither file:///FOLDER nor s3://BUCKET/PREFIX"));
  EXPECT_THAT(why({"--artifacts=s3://Clips"}), HasSubstr("artifacts: \"s3://Clips\": must be s3://BUCKET"));
  EXPECT_THAT(why({"--s3-region=eu-central-1"}), HasSubstr("s3_region: has no effect"));
}

}  // namespace
}  // namespace kinora
