// The frontend as a process: state after a restart, metrics, and authorization.
#include "server/frontend/frontend.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "server/common/status_details.h"
#include "server/net/grpc_status.h"
#include "tests/server/frontend/frontend_fixture.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/raw_call.h"

namespace kinora {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST_F(FrontendTest, ADrainedJobIsQueuedAgainAndTheNextFrontendRunsIt) {
  Start();
  auto worker = StartWorker();
  const std::string id = Create(Request())->id();
  const std::string waiting = Create(Request())->id();
  EXPECT_EQ(worker->AwaitRun().attempt(), 1);
  Restart();
  worker.reset();
  worker = StartWorker("two");
  const v1::Run run = worker->AwaitRun();
  EXPECT_EQ(run.video_id(), id);  // it keeps its age
  EXPECT_EQ(run.attempt(), 2);
  worker->Complete(run, "bytes");
  EXPECT_EQ(AwaitEnd(id).state(), v1::Video::COMPLETED);
  EXPECT_EQ(worker->AwaitRun().video_id(), waiting);
  EXPECT_THAT(Download(id), IsOkAndHolds(std::string("bytes")));
}

TEST_F(FrontendTest, AJobWhoseWorkerDiedTwiceIsAbortedAndOneThatDiedOnceCompletes) {
  Start();
  auto worker = StartWorker();
  const std::string id = Create(Request())->id();
  worker->AwaitRun();
  worker.reset();
  AwaitQueuedAgain(id);
  worker = StartWorker("two");
  worker->Complete(worker->AwaitRun(), "bytes");
  EXPECT_EQ(AwaitEnd(id).attempt(), 2);
  EXPECT_EQ(Get(id)->state(), v1::Video::COMPLETED);

  const std::string doomed = Create(Request())->id();
  worker->AwaitRun();
  worker.reset();
  AwaitQueuedAgain(doomed);
  worker = StartWorker("three");
  worker->AwaitRun();
  worker.reset();
  const v1::Video video = AwaitEnd(doomed);
  EXPECT_EQ(video.state(), v1::Video::FAILED);
  EXPECT_EQ(video.error().code(), static_cast<int>(absl::StatusCode::kAborted));
  EXPECT_EQ(ErrorReason(FromRpcStatus(video.error())), "WORKER_GROUP_LOST");
}

TEST_F(FrontendTest, MetricsCountWhatHappenedAndGaugesReturnToZero) {
  FakeClock clock;  // the server measures only the time that the test advances
  clock_ = &clock;
  config_.set_worker_heartbeat_timeout_seconds(1000);
  config_.set_worker_step_floor_seconds(1000);
  Start();
  const auto worker = StartWorker();
  const auto run_one = [&](const absl::Status& end) {
    const std::string id = Create(Request())->id();
    const v1::Run run = worker->AwaitRun();
    clock.Advance(absl::Seconds(7));
    end.ok() ? worker->Complete(run, "12345") : worker->End(run, end);
    AwaitEnd(id);
  };
  for (int i = 0; i < 3; ++i) run_one(absl::OkStatus());
  run_one(absl::ResourceExhaustedError("no memory"));
  v1::CreateVideoRequest invalid = Request();
  invalid.mutable_generation()->set_width(1);
  EXPECT_FALSE(Create(invalid).ok());
  const std::string cancelled = Create(Request())->id();
  const v1::Run run = worker->AwaitRun();
  const std::string waiting = Create(Request())->id(), last = Create(Request())->id();
  auto samples = Metrics();
  EXPECT_EQ(samples["kinora_queue_depth{priority=\"0\"}"], 2);
  EXPECT_EQ(samples["kinora_jobs_running"], 1);
  ASSERT_THAT(Cancel(waiting), IsOk());
  ASSERT_THAT(Cancel(cancelled), IsOk());
  EXPECT_TRUE(worker->Next().has_cancel());
  clock.Advance(absl::Seconds(3));  // the worker's step ends
  worker->End(run, absl::CancelledError(""));
  AwaitEnd(cancelled);
  worker->Complete(worker->AwaitRun(), "12345");  // the last run, which waited for these three seconds
  AwaitEnd(last);

  do {
    samples = Metrics();  // a client's stream ends before the server releases it
  } while (samples["kinora_watchers"] != 0 || samples["kinora_jobs_running"] != 0);
  const auto requests = [&](const std::string& code, const std::string& model, const std::string& recipe) {
    return samples[absl::StrCat("kinora_requests_total{code=\"", code, "\",model=\"", model, "\",recipe=\"", recipe,
                                "\"}")];
  };
  EXPECT_EQ(requests("OK", "tiny", "ONE_STAGE"), 4);
  EXPECT_EQ(requests("RESOURCE_EXHAUSTED", "tiny", "ONE_STAGE"), 1);
  for (const char* series : {"kinora_requests_total{code=\"ABORTED\",model=\"tiny\",recipe=\"ONE_STAGE\"}",
                             "kinora_admission_rejected_total{reason=\"disk_full\"}",
                             "kinora_connections_refused_total{field=\"address\",reason=\"full\"}",
                             "kinora_group_restarts_total{reason=\"stalled\"}"}) {
    EXPECT_EQ(samples.count(series), 1U) << series;  // exists with value 0 before anything happened
    EXPECT_EQ(samples[series], 0) << series;
  }
  EXPECT_EQ(requests("CANCELLED", "tiny", "ONE_STAGE"), 2);
  EXPECT_EQ(requests("INVALID_ARGUMENT", "unknown", "RECIPE_UNSPECIFIED"), 1);
  EXPECT_EQ(samples["kinora_admission_rejected_total{reason=\"invalid\"}"], 1);
  EXPECT_EQ(samples["kinora_artifact_bytes_total"], 20);
  EXPECT_EQ(samples["kinora_device_seconds_total"], 8);
  EXPECT_EQ(samples["kinora_queue_depth{priority=\"0\"}"], 0);
  EXPECT_EQ(samples["kinora_queue_wait_seconds_count"], 6);  // all jobs that ran
  EXPECT_NEAR(samples["kinora_queue_wait_seconds_sum"], 3, 1e-6);
  EXPECT_EQ(samples["kinora_cancel_latency_seconds_count"], 1);
  EXPECT_NEAR(samples["kinora_cancel_latency_seconds_sum"], 3, 1e-6);
  const std::string labels = "{model=\"tiny\",recipe=\"ONE_STAGE\"}";
  EXPECT_EQ(samples["kinora_request_duration_seconds_count" + labels], 4);
  EXPECT_NEAR(samples["kinora_request_duration_seconds_sum" + labels], 3 * 7 + 3, 1e-6);
  frontend_.reset();  // before its clock
}

TEST_F(FrontendTest, HealthTellsLiveFromReady) {
  Start();
  const auto watch = [&](const std::string& path) { return HttpGet(path); };
  EXPECT_EQ(watch("/livez"), "ok\n");
  EXPECT_THAT(watch("/readyz"), HasSubstr("no worker group"));
  auto worker = StartWorker();
  EXPECT_EQ(watch("/readyz"), "ok\n");
  worker.reset();
  while (watch("/readyz") == "ok\n") std::this_thread::yield();
  EXPECT_EQ(watch("/livez"), "ok\n");
}

// A frontend restarted with more files must not reject requests based on its earlier files.
TEST_F(FrontendTest, WhileTheModelLoadsWhatOnlyItsEarlierPartsRefuseMayBeTriedAgain) {
  Start();
  StartWorker();
  Restart();
  v1::CreateVideoRequest request = Request();
  request.mutable_generation()->add_loras()->set_id("ink");
  EXPECT_THAT(Create(request), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ink")));  // no group has joined
  const FakeWorker loads(absl::StrCat("unix:", directory_.File("state/worker.sock")), v1::ModelInfo(), "two");
  while (HttpGet("/readyz").find("is loading") == std::string::npos) std::this_thread::yield();
  const absl::Status later = Create(request).status();
  EXPECT_THAT(later, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("with its previous configuration: ")));
  EXPECT_EQ(ErrorReason(later), "NO_MODEL");
  request.mutable_generation()->set_width(63);
  EXPECT_THAT(Create(request), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("width")));
}

TEST_F(FrontendTest, ALoraThatWasListedAMomentAgoMayBeAskedForAgain) {
  FakeClock clock;
  clock_ = &clock;
  Start();
  auto worker = StartWorker();
  v1::CreateVideoRequest request = Request();
  request.mutable_generation()->add_loras()->set_id("ink");
  EXPECT_THAT(Create(request), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ink")));
  v1::WorkerMessage model;
  *model.mutable_model() = TinyModel();
  model.mutable_model()->add_loras("ink");
  worker->Send(model);
  while (!Create(request).ok()) std::this_thread::yield();
  model.mutable_model()->clear_loras();  // its file is being replaced
  worker->Send(model);
  absl::Status gone;
  while (gone.ok()) gone = Create(request).status();
  EXPECT_THAT(gone, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("ink was listed a moment ago")));
  EXPECT_THAT(ToRpcStatus(gone).DebugString(), HasSubstr("RetryInfo"));
  clock.Advance(absl::Seconds(10));
  EXPECT_THAT(Create(request), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ink")));
  worker.reset();
  frontend_.reset();  // before its clock
}

TEST_F(FrontendTest, AnswersTheHealthProtocolForTheServerTheServiceAndEachGroup) {
  Start();
  EXPECT_EQ(Health(channel_, ""), "SERVING");
  EXPECT_EQ(Health(channel_, "kinora.v1.VideoGeneration"), "NOT_SERVING");
  EXPECT_EQ(Health(channel_, "kinora.group.0"), "NOT_FOUND");
  auto worker = StartWorker();
  EXPECT_EQ(Health(channel_, "kinora.v1.VideoGeneration"), "SERVING");
  EXPECT_EQ(Health(channel_, "kinora.group.0"), "SERVING");
  worker.reset();
  while (Health(channel_, "kinora.group.0") == "SERVING") std::this_thread::yield();
  EXPECT_EQ(Health(channel_, "kinora.v1.VideoGeneration"), "NOT_SERVING");
  EXPECT_EQ(Health(channel_, ""), "SERVING");
}

// grpcurl's first requests: the services (field 7), then the file of one of them (field 4).
TEST_F(FrontendTest, AnswersReflection) {
  Start();
  const char kMethod[] = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
  KINORA_ASSERT_OK_AND_ASSIGN(const std::string services, RawCall(channel_, kMethod, "\x3a\x01*"));
  for (const char* name : {"kinora.v1.VideoGeneration", "kinora.v1.Models", "grpc.health.v1.Health"}) {
    EXPECT_THAT(services, HasSubstr(name));
  }
  EXPECT_THAT(services, Not(HasSubstr("kinora.v1.Admin")));
  const std::string symbol = "kinora.v1.VideoGeneration";
  KINORA_ASSERT_OK_AND_ASSIGN(
      const std::string file,
      RawCall(channel_, kMethod, absl::StrCat("\x22", std::string(1, static_cast<char>(symbol.size())), symbol)));
  EXPECT_THAT(file, HasSubstr("kinora/v1/video_generation.proto"));
  EXPECT_THAT(file, HasSubstr("CreateVideoRequest"));
}

TEST_F(FrontendTest, AMessageThatIsNoProtobufIsAnErrorAndTheNextCallWorks) {
  Start();
  for (const std::string& bytes : {std::string("\xff\xff\xff"), std::string(5000, '\x0b'), std::string("\x1a\x7f")}) {
    for (const char* method : {"CreateVideo", "GenerateVideo", "EstimateVideo"}) {
      EXPECT_THAT(RawCall(channel_, absl::StrCat("/kinora.v1.VideoGeneration/", method), bytes),
                  StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("CreateVideoRequest")));
    }
  }
  EXPECT_THAT(RawCall(channel_, "/kinora.v1.VideoGeneration/CreateVideo", "\x1a\x04\x0a\x02\xff\xfe"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("generation.prompt: invalid UTF-8")));
  EXPECT_THAT(RawCall(channel_, "/kinora.v1.VideoGeneration/Nothing", ""), StatusIs(absl::StatusCode::kUnimplemented));
  EXPECT_THAT(RawCall(channel_, "/kinora.v1.VideoGeneration/CreateVideo", std::string(5 << 20, 'x')),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(Get("x"), StatusIs(absl::StatusCode::kNotFound));
}

// gRPC itself answers UNIMPLEMENTED, without a message, if its generated code cannot parse a request.
TEST_F(FrontendTest, TextThatIsNotUtf8IsNamedInEveryMethod) {
  Start();
  const auto worker = StartWorker();
  for (const auto& [method, bytes, field] :
       std::vector<std::array<std::string, 3>>{{"CreateVideo", "\x12\x02\xff\xfe", "model"},
                                               {"GenerateVideo", "\x12\x02\xff\xfe", "model"},
                                               {"EstimateVideo", "\x12\x02\xff\xfe", "model"},
                                               {"WatchVideo", "\x0a\x02\xff\xfe", "id"},
                                               {"GetVideo", "\x0a\x02\xff\xfe", "id"},
                                               {"CancelVideo", "\x0a\x02\xff\xfe", "id"},
                                               {"DeleteVideo", "\x0a\x02\xff\xfe", "id"},
                                               {"ListVideos", "\x12\x02\xff\xfe", "page_token"},
                                               {"GetInput", "\x0a\x02\xff\xfe", "sha256"},
                                               {"DownloadArtifact", "\x12\x02\xff\xfe", "artifact_id"}}) {
    EXPECT_THAT(RawCall(channel_, absl::StrCat("/kinora.v1.VideoGeneration/", method), bytes),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(absl::StrCat(field, ": invalid UTF-8"))))
        << method;
    EXPECT_THAT(RawCall(channel_, absl::StrCat("/kinora.v1.VideoGeneration/", method), "\xff\xff"),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the request's bytes are not a")))
        << method;
    EXPECT_THAT(RawCall(channel_, absl::StrCat("/kinora.v1.VideoGeneration/", method), "\xd2\x0f\x01x"),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("#250")))
        << method;
  }
  EXPECT_THAT(RawCall(channel_, "/kinora.v1.Models/ListModels", "\xff\xff"),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(RawCall(channel_, "/kinora.v1.Models/ListModels", "\xd2\x0f\x01x"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("#250")));
  EXPECT_THAT(Get(std::string(1 << 20, 'i')),
              StatusIs(absl::StatusCode::kNotFound, Not(HasSubstr(std::string(101, 'i')))));
  const auto admin = grpc::CreateChannel(absl::StrCat("unix:", directory_.File("state/admin.sock")),
                                         grpc::InsecureChannelCredentials());
  EXPECT_THAT(RawCall(admin, "/kinora.v1.Admin/ListWorkerGroups", "\xff\xff"),
              StatusIs(absl::StatusCode::kInvalidArgument));
  for (const char* method : {"DrainWorkerGroup", "RestartWorkerGroup"}) {
    EXPECT_THAT(RawCall(admin, absl::StrCat("/kinora.v1.Admin/", method), "\x0a\x02\xff\xfe"),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("id: invalid UTF-8")));
  }
}

TEST_F(FrontendTest, AdminHasAnAddressOfItsOwn) {
  Start();
  const auto worker = StartWorker();
  const auto list = [&](const std::shared_ptr<grpc::Channel>& channel, v1::ListWorkerGroupsResponse* reply) {
    return FromGrpcStatus(v1::Admin::NewStub(channel)->ListWorkerGroups(Context().get(), {}, reply));
  };
  v1::ListWorkerGroupsResponse reply;
  EXPECT_THAT(list(channel_, &reply), StatusIs(absl::StatusCode::kUnimplemented));
  const auto admin = grpc::CreateChannel(absl::StrCat("unix:", directory_.File("state/admin.sock")),
                                         grpc::InsecureChannelCredentials());
  EXPECT_THAT(list(admin, &reply), IsOk());
  ASSERT_EQ(reply.groups_size(), 1);
  EXPECT_EQ(reply.groups(0).model(), "tiny");
  v1::WorkerGroupRequest nobody;
  nobody.set_id("9");
  v1::WorkerGroup group;
  EXPECT_THAT(FromGrpcStatus(v1::Admin::NewStub(admin)->DrainWorkerGroup(Context().get(), nobody, &group)),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(FrontendTest, WithATokenFileEveryMethodNeedsAToken) {
  WriteFile(directory_.File("tokens"), "# of tests\n0123456789abcdef\n");
  ASSERT_EQ(chmod(directory_.File("tokens").c_str(), 0600), 0);
  config_.set_token_file(directory_.File("tokens"));
  Start();
  const auto refused = StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("authorization"));
  const auto call_all = [&](auto expected) {
    EXPECT_THAT(Get("x"), expected);
    EXPECT_THAT(Cancel("x"), expected);
    EXPECT_THAT(Download("x"), expected);
    v1::WatchVideoRequest watch;
    watch.set_id("x");
    const auto context = Context();
    const auto stream = stub_->WatchVideo(context.get(), watch);
    v1::VideoEvent event;
    EXPECT_FALSE(stream->Read(&event));
    EXPECT_THAT(FromGrpcStatus(stream->Finish()), expected);
  };
  const auto list_models = [&] {
    v1::ListModelsResponse models;
    return FromGrpcStatus(v1::Models::NewStub(channel_)->ListModels(Context().get(), {}, &models));
  };
  const auto generate = [&] {
    const auto context = Context();
    const auto stream = stub_->GenerateVideo(context.get(), Request());
    v1::VideoEvent event;
    while (stream->Read(&event)) {
    }
    return FromGrpcStatus(stream->Finish());
  };
  for (const char* token : {"", "0123456789abcdeX"}) {
    token_ = token;
    call_all(refused);
    EXPECT_THAT(list_models(), refused);
    EXPECT_THAT(generate(), refused);
    EXPECT_THAT(Create(Request()), refused);
  }
  auto samples = Metrics();
  EXPECT_EQ(samples["kinora_admission_rejected_total{reason=\"unauthenticated\"}"], 14);
  EXPECT_EQ(samples["kinora_requests_total{code=\"UNAUTHENTICATED\",model=\"unknown\",recipe=\"RECIPE_UNSPECIFIED\"}"],
            14);
  token_ = "0123456789abcdef";
  call_all(StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(list_models(), IsOk());
  EXPECT_THAT(Create(Request()), StatusIs(absl::StatusCode::kUnavailable));  // no model yet
}

// Reflection exposes the whole API, also on the Admin port. Health exposes little and is used by probes.
TEST_F(FrontendTest, ReflectionNeedsTheTokenOfItsPortAndHealthNone) {
  const char kReflection[] = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
  for (const char* name : {"tokens", "admin_tokens"}) {
    WriteFile(directory_.File(name), absl::StrCat("0123456789abcdef", name));
    ASSERT_EQ(chmod(directory_.File(name).c_str(), 0600), 0);
  }
  config_.set_token_file(directory_.File("tokens"));
  config_.set_admin_token_file(directory_.File("admin_tokens"));
  Start();
  const auto admin = grpc::CreateChannel(absl::StrCat("unix:", directory_.File("state/admin.sock")),
                                         grpc::InsecureChannelCredentials());
  EXPECT_THAT(RawCall(channel_, kReflection, "\x3a\x01*"), StatusIs(absl::StatusCode::kUnauthenticated));
  EXPECT_THAT(RawCall(admin, kReflection, "\x3a\x01*"), StatusIs(absl::StatusCode::kUnauthenticated));
  EXPECT_THAT(RawCall(admin, "/kinora.v1.Admin/ListWorkerGroups", ""), StatusIs(absl::StatusCode::kUnauthenticated));
  EXPECT_THAT(RawCall(admin, kReflection, "\x3a\x01*", "Bearer 0123456789abcdefadmin_tokens"),
              IsOkAndHolds(HasSubstr("kinora.v1.Admin")));
  EXPECT_EQ(Health(channel_, ""), "SERVING");
  EXPECT_EQ(Health(admin, ""), "UNIMPLEMENTED");
}

TEST_F(FrontendTest, ACallWithoutAMessageOrWithACompressedOneIsAnError) {
  Start();
  grpc::ClientContext context;
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);  // four megabytes could expand to gigabytes
  v1::Video video;
  EXPECT_THAT(FromGrpcStatus(stub_->CreateVideo(&context, Request(std::string(10'000, 'p')), &video)),
              StatusIs(absl::StatusCode::kUnimplemented));
  grpc::ClientContext empty;
  const std::unique_ptr<grpc::ClientWriter<v1::GetVideoRequest>> call(
      grpc::internal::ClientWriterFactory<v1::GetVideoRequest>::Create(
          channel_.get(),
          grpc::internal::RpcMethod("/kinora.v1.VideoGeneration/GetVideo", grpc::internal::RpcMethod::CLIENT_STREAMING,
                                    channel_),
          &empty, &video));
  call->WritesDone();
  EXPECT_THAT(FromGrpcStatus(call->Finish()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("GetVideoRequest")));
  EXPECT_THAT(Get("x"), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(FrontendTest, ServesTlsAndRefusesPlainText) {
  const std::string command = absl::StrCat(
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost ",
      "-addext subjectAltName=DNS:localhost -keyout ", directory_.File("key"), " -out ", directory_.File("cert"),
      " 2>/dev/null");
  if (std::system(command.c_str()) != 0) GTEST_SKIP() << "no openssl command";
  config_.mutable_tls()->set_certificate_file(directory_.File("cert"));
  config_.mutable_tls()->set_key_file(directory_.File("key"));
  Start();
  EXPECT_THAT(Get("x"), StatusIs(absl::StatusCode::kUnavailable));  // a client without TLS
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = ReadFile(directory_.File("cert"));
  grpc::ChannelArguments arguments;
  arguments.SetSslTargetNameOverride("localhost");
  stub_ = v1::VideoGeneration::NewStub(grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", frontend_->port()),
                                                                 grpc::SslCredentials(options), arguments));
  EXPECT_THAT(Get("x"), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(FrontendTest, ErrorsAtTheStartNameTheField) {
  Start();
  v1::FrontendConfig other = config_;
  EXPECT_THAT(Frontend::Start(other), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("state_directory")));
  other.set_state_directory(directory_.File("other"));
  other.set_address(absl::StrCat("127.0.0.1:", frontend_->port()));
  EXPECT_THAT(Frontend::Start(other), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("address")));
  other.set_address("127.0.0.1:0");
  other.set_token_file(directory_.File("none"));
  EXPECT_THAT(Frontend::Start(other), StatusIs(absl::StatusCode::kNotFound, HasSubstr("none")));
}

TEST_F(FrontendTest, AJobIsRefusedWhileTheDiskIsTooFull) {
  config_.set_min_free_bytes(int64_t{1} << 60);
  Start();
  StartWorker();
  const auto refused = Create(Request());
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("min_free_bytes")));
  EXPECT_EQ(ErrorReason(refused.status()), "DISK_FULL");
}

}  // namespace
}  // namespace kinora
