#include "tests/testing/fake_worker.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <utility>

#include "absl/time/time.h"
#include "engine/base/check.h"
#include "kinora/v1/worker.grpc.pb.h"
#include "server/common/build_version.h"
#include "server/common/directory_artifact_store.h"
#include "server/common/sha256.h"
#include "server/common/stage_conversion.h"
#include "server/common/status_details.h"
#include "server/common/upload_limits.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {

struct FakeWorker::Stream {
  grpc::ClientContext context;
  std::unique_ptr<v1::WorkerControl::Stub> stub;
  std::unique_ptr<grpc::ClientReaderWriter<v1::WorkerMessage, v1::FrontendMessage>> rpc;
  absl::Mutex write_mu;
};

FakeWorker::FakeWorker(const std::string& address, const v1::ModelInfo& model, const std::string& incarnation,
                       const std::string& group)
    : stream_(std::make_unique<Stream>()) {
  {
    absl::MutexLock lock(&mu_);
    estimate_.set_fits(true);
  }
  grpc::ChannelArguments own;  // does not share a connection, like a separate process
  own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  stream_->stub =
      v1::WorkerControl::NewStub(grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), own));
  stream_->rpc = stream_->stub->Join(&stream_->context);
  reader_ = std::thread([this] {
    for (v1::FrontendMessage message; stream_->rpc->Read(&message);) {
      if (message.has_estimate()) {
        AnswerEstimate(message.estimate());
        continue;
      }
      absl::MutexLock lock(&mu_);
      received_.push_back(std::move(message));
    }
  });
  v1::WorkerMessage message;
  v1::Hello& hello = *message.mutable_hello();
  hello.set_build(kBuildVersion);
  hello.set_commit(ThisBuild().commit);
  hello.set_protocol(ThisBuild().protocol);
  hello.set_group(group);
  hello.set_incarnation(incarnation);
  hello.set_world_size(1);
  hello.set_pid(getpid());
  hello.set_device("test");
  Send(message);
  artifact_directory_ = Next().welcome().artifact_directory();
  if (model.id().empty()) return;
  v1::WorkerMessage ready;
  *ready.mutable_ready()->mutable_model() = model;
  Send(ready);
}

FakeWorker::~FakeWorker() {
  stream_->context.TryCancel();
  reader_.join();
  stream_->rpc->Finish();
}

void FakeWorker::AnswerEstimate(const v1::EstimateRequest& request) {
  v1::WorkerMessage message;
  v1::EstimateResult& result = *message.mutable_estimate_result();
  result.set_id(request.id());
  {
    absl::MutexLock lock(&mu_);
    last_estimate_request_ = request;
    *result.mutable_estimate() = estimate_;
  }
  *result.mutable_estimate()->mutable_effective() = request.generation();
  absl::MutexLock lock(&stream_->write_mu);
  stream_->rpc->Write(message);  // if the stream has ended, nobody needs the answer
}

void FakeWorker::SetEstimate(const v1::Estimate& estimate) {
  absl::MutexLock lock(&mu_);
  estimate_ = estimate;
}

v1::EstimateRequest FakeWorker::LastEstimateRequest() {
  absl::MutexLock lock(&mu_);
  return last_estimate_request_;
}

v1::FrontendMessage FakeWorker::Next() {
  std::optional<v1::FrontendMessage> message = NextWithin(absl::Seconds(30));
  KINORA_CHECK(message.has_value()) << "the frontend says nothing";
  return *std::move(message);
}

std::optional<v1::FrontendMessage> FakeWorker::NextWithin(absl::Duration patience) {
  const auto there = [this] {
    mu_.AssertHeld();
    return !received_.empty();
  };
  absl::MutexLock lock(&mu_);
  if (!mu_.AwaitWithTimeout(absl::Condition(&there), patience)) return std::nullopt;
  v1::FrontendMessage message = std::move(received_.front());
  received_.pop_front();
  return message;
}

v1::Run FakeWorker::AwaitRun() {
  v1::FrontendMessage message = Next();
  KINORA_CHECK(message.has_run()) << message.ShortDebugString();
  return message.run();
}

void FakeWorker::SendStage(const v1::Run& run, const std::string& stage, int total_steps) {
  v1::WorkerMessage message;
  v1::StageMark& mark = *message.mutable_stage();
  mark.set_video_id(run.video_id());
  mark.set_attempt(run.attempt());
  const StageRow* const row = FindStage(stage);
  KINORA_CHECK(row != nullptr) << stage;
  SetStage(row->stage, mark);
  mark.set_total_steps(total_steps);
  Send(message);
}

void FakeWorker::SendStep(const v1::Run& run, const std::string& stage, int step, int total_steps) {
  v1::WorkerMessage message;
  v1::StepMark& mark = *message.mutable_step();
  mark.set_video_id(run.video_id());
  mark.set_attempt(run.attempt());
  const StageRow* const row = FindStage(stage);
  KINORA_CHECK(row != nullptr) << stage;
  SetStage(row->stage, mark);
  mark.set_step(step);
  mark.set_total_steps(total_steps);
  mark.set_remaining_seconds(-1);
  Send(message);
}

StoredFile FakeWorker::SendToFrontend(const v1::Run& run, const std::string& bytes) {
  KINORA_CHECK(bytes.size() <= kMostUploadBytes);
  StoredFile sent{.bytes = std::ssize(bytes), .sha256 = Sha256Hex(bytes)};
  v1::WorkerMessage message;
  v1::UploadChunk& chunk = *message.mutable_upload_chunk();
  chunk.set_video_id(run.video_id());
  chunk.set_attempt(run.attempt());
  chunk.set_name("video.mp4");
  chunk.set_data(bytes);
  chunk.set_sha256(sent.sha256);
  Send(message);
  const v1::FrontendMessage answer = Next();
  KINORA_CHECK(answer.has_upload_answer() && !answer.upload_answer().has_error()) << answer.ShortDebugString();
  return sent;
}

StoredFile FakeWorker::Store(const v1::Run& run, const std::string& bytes) {
  if (artifact_directory_.empty()) return SendToFrontend(run, bytes);
  auto store = DirectoryArtifactStore::At(artifact_directory_);
  KINORA_CHECK(store.ok()) << store.status();
  const std::string key = run.artifact_key() + "/video.mp4";
  const auto file = (*store)->TemporaryPath(key);
  KINORA_CHECK(file.ok()) << file.status();
  WriteFile(*file, bytes);
  const auto stored = (*store)->Put(key, *file);
  KINORA_CHECK(stored.ok()) << stored.status();
  return *stored;
}

void FakeWorker::Complete(const v1::Run& run, const std::string& bytes) {
  const StoredFile stored = Store(run, bytes);
  v1::WorkerMessage message;
  v1::RunResult& result = *message.mutable_run_result();
  result.set_video_id(run.video_id());
  result.set_attempt(run.attempt());
  v1::Artifact& artifact = *result.add_artifacts();
  artifact.set_id("video.mp4");
  artifact.set_media_type("video/mp4");
  artifact.set_bytes(stored.bytes);
  artifact.set_sha256(stored.sha256);
  result.mutable_usage()->set_device_seconds(2);
  Send(message);
}

void FakeWorker::End(const v1::Run& run, const absl::Status& status) {
  v1::WorkerMessage message;
  v1::RunResult& result = *message.mutable_run_result();
  result.set_video_id(run.video_id());
  result.set_attempt(run.attempt());
  *result.mutable_error() = ToRpcStatus(status);
  Send(message);
}

void FakeWorker::Send(const v1::WorkerMessage& message) {
  absl::MutexLock lock(&stream_->write_mu);
  KINORA_CHECK(stream_->rpc->Write(message)) << "the stream is broken";
}

}  // namespace kinora
