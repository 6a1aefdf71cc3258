// A worker of one rank that sends the messages a test tells it to send, over a real Join stream.
#ifndef KINORA_TESTS_TESTING_FAKE_WORKER_H_
#define KINORA_TESTS_TESTING_FAKE_WORKER_H_

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kinora/v1/worker.pb.h"
#include "server/common/artifact_store.h"

namespace kinora {

class FakeWorker {
 public:
  // Joins at `address`, awaits the Welcome and reports `model` as loaded; with an empty `model` it stays in the loading
  // state. CHECK-fails if it is not welcomed.
  FakeWorker(const std::string& address, const v1::ModelInfo& model, const std::string& incarnation = "one",
             const std::string& group = "0");
  ~FakeWorker();  // breaks the stream, as if the process had died

  // Sets the immediate answer to future estimate requests. The default answer is that everything fits and takes 0 s.
  void SetEstimate(const v1::Estimate& estimate);
  v1::EstimateRequest LastEstimateRequest();

  // Returns the frontend's next message, other than estimate requests. CHECK-fails after 30 s of silence.
  v1::FrontendMessage Next();
  std::optional<v1::FrontendMessage> NextWithin(absl::Duration patience);
  v1::Run AwaitRun();

  void SendStage(const v1::Run& run, const std::string& stage, int total_steps);
  void SendStep(const v1::Run& run, const std::string& stage, int step, int total_steps);
  // Stores `bytes` as the artifact "video.mp4", itself or by the frontend, and ends the run with it.
  void Complete(const v1::Run& run, const std::string& bytes);
  void End(const v1::Run& run, const absl::Status& status);
  void Send(const v1::WorkerMessage& message);

 private:
  struct Stream;
  StoredFile Store(const v1::Run& run, const std::string& bytes);
  StoredFile SendToFrontend(const v1::Run& run, const std::string& bytes);
  void AnswerEstimate(const v1::EstimateRequest& request);
  const std::unique_ptr<Stream> stream_;
  std::string artifact_directory_;
  absl::Mutex mu_;
  std::deque<v1::FrontendMessage> received_ ABSL_GUARDED_BY(mu_);
  v1::Estimate estimate_ ABSL_GUARDED_BY(mu_);
  v1::EstimateRequest last_estimate_request_ ABSL_GUARDED_BY(mu_);
  std::thread reader_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_FAKE_WORKER_H_
