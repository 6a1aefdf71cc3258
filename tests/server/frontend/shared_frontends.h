// Fixture for several kinora-frontend processes with one PostgreSQL database and one S3 bucket.
#ifndef KINORA_TESTS_SERVER_FRONTEND_SHARED_FRONTENDS_H_
#define KINORA_TESTS_SERVER_FRONTEND_SHARED_FRONTENDS_H_

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tests/server/frontend/frontend_process.h"
#include "tests/testing/postgres_server.h"
#include "tests/testing/s3_server.h"

namespace kinora {

// One of them.
class SharingFrontend : public FrontendProcess {
 public:
  using FrontendProcess::AwaitEnd;
  using FrontendProcess::Create;
  using FrontendProcess::Download;
  using FrontendProcess::End;
  using FrontendProcess::Eventually;
  using FrontendProcess::Get;
  using FrontendProcess::Join;
  using FrontendProcess::LogText;
  using FrontendProcess::Run;
  using FrontendProcess::Serve;
  using FrontendProcess::Upload;

  void TestBody() override {}
  v1::VideoGeneration::Stub& stub() { return *stub_; }
  std::string File(const std::string& name) const { return directory_.File(name); }
  bool Knows(const std::string& input) {
    v1::GetInputRequest request;
    request.set_sha256(input);
    v1::Input found;
    grpc::ClientContext context;
    return stub_->GetInput(&context, request, &found).ok() && !found.id().empty();
  }
  grpc::Status CreateWithInput(const std::string& input, v1::Video* video) {
    v1::CreateVideoRequest request;
    request.mutable_generation()->set_prompt("a kite");
    request.mutable_generation()->add_conditions()->mutable_image()->set_input_id(input);
    grpc::ClientContext context;
    return stub_->CreateVideo(&context, request, video);
  }
  void Cancel(const std::string& id) {
    v1::CancelVideoRequest request;
    request.set_id(id);
    v1::Video video;
    grpc::ClientContext context;
    const grpc::Status status = stub_->CancelVideo(&context, request, &video);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
};

class SharedFrontends : public testing::Test {
 protected:
  void SetUp() override {
    if (!PostgresServer::IsInstalled()) GTEST_SKIP() << "PostgreSQL is not installed";
    if (!S3Server::IsInstalled()) GTEST_SKIP() << "moto is not installed";
    S3Server& server = S3Server::Shared();
    server.ClearFaults();
    setenv("AWS_ACCESS_KEY_ID", server.keys().id.c_str(), 1);
    setenv("AWS_SECRET_ACCESS_KEY", server.keys().secret.c_str(), 1);
    const S3Options place = server.NewPlace();
    url_ = PostgresServer::Shared().NewDatabase();
    flags_ = {"--store",      url_,          "--artifacts", place.url,         "--s3-endpoint",
              place.endpoint, "--s3-region", place.region,  "--s3-path-style", "--lease-seconds=3"};
  }
  std::unique_ptr<SharingFrontend> Serve(const std::vector<std::string>& more = {}) {
    auto frontend = std::make_unique<SharingFrontend>();
    std::vector<std::string> flags = flags_;
    flags.insert(flags.end(), more.begin(), more.end());
    frontend->Serve(flags);
    return frontend;
  }

  std::string url_;
  std::vector<std::string> flags_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_SERVER_FRONTEND_SHARED_FRONTENDS_H_
