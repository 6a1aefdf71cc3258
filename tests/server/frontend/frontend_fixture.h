// A complete frontend in this process with a temporary directory, a client, and workers that the test scripts.
#ifndef KINORA_TESTS_SERVER_FRONTEND_FRONTEND_FIXTURE_H_
#define KINORA_TESTS_SERVER_FRONTEND_FRONTEND_FIXTURE_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/config/config.h"
#include "server/frontend/frontend.h"
#include "tests/testing/fake_worker.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {

v1::ModelInfo TinyModel();

class FrontendTest : public testing::Test {
 protected:
  using EventReader = std::unique_ptr<grpc::ClientReader<v1::VideoEvent>>;

  FrontendTest();
  void Start();    // with config_
  void Restart();  // drains first
  std::unique_ptr<FakeWorker> StartWorker(const std::string& incarnation = "one");

  v1::CreateVideoRequest Request(const std::string& prompt = "a kite");
  absl::StatusOr<v1::Video> Create(const v1::CreateVideoRequest& request);
  absl::StatusOr<v1::Video> Get(const std::string& id);
  absl::StatusOr<v1::Video> Cancel(const std::string& id);
  absl::StatusOr<std::string> Download(const std::string& id, int64_t offset = 0, const std::string& artifact = "");
  // Uploads `bytes` from the header's offset on, in chunks of `chunk` bytes. If the header has no sha256, sets it and
  // the size.
  absl::StatusOr<v1::Input> Upload(const std::string& bytes, v1::UploadInputRequest::Header header = {},
                                   size_t chunk = 64 << 10);
  absl::StatusOr<v1::Input> GetInput(const std::string& sha256);
  // Returns all events of a watch. The watch must end with OK.
  std::vector<v1::VideoEvent> WatchAll(const std::string& id, int64_t after = 0);
  v1::Video AwaitEnd(const std::string& id);
  // Waits until the job is queued again after its first attempt. The group that ran it is then gone, and another may
  // join.
  void AwaitQueuedAgain(const std::string& id);
  // Returns all samples of the metrics page, keyed by `name{labels}`.
  std::map<std::string, double> Metrics();
  std::string HttpGet(const std::string& path);

  std::unique_ptr<grpc::ClientContext> Context();  // with token_

  TemporaryDirectory directory_;
  v1::FrontendConfig config_ = DefaultFrontendConfig();
  Clock* clock_ = nullptr;  // if set: does not move unless the test advances it
  std::string token_;
  std::unique_ptr<Frontend> frontend_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::VideoGeneration::Stub> stub_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_SERVER_FRONTEND_FRONTEND_FIXTURE_H_
