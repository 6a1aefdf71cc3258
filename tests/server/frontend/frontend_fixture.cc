#include "tests/server/frontend/frontend_fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "server/common/sha256.h"
#include "server/net/grpc_status.h"
#include "server/request/model_conversion.h"
#include "tests/request/descriptions.h"

namespace kinora {

v1::ModelInfo TinyModel() { return ToModelInfo(DescribeModel(Tiny()), "tiny"); }

FrontendTest::FrontendTest() {
  config_.set_address("127.0.0.1:0");
  config_.set_http_address("127.0.0.1:0");
  config_.set_web_address("");
  config_.set_state_directory(directory_.File("state"));
  config_.set_min_free_bytes(0);
  config_.set_drain_grace_seconds(0.2);
}

void FrontendTest::Start() {
  auto frontend = Frontend::Start(config_, clock_ == nullptr ? Clocks{} : Clocks{.date = *clock_, .steady = *clock_});
  KINORA_CHECK(frontend.ok()) << frontend.status();
  frontend_ = *std::move(frontend);
  channel_ = grpc::CreateChannel(absl::StrCat("127.0.0.1:", frontend_->port()), grpc::InsecureChannelCredentials());
  stub_ = v1::VideoGeneration::NewStub(channel_);
}

void FrontendTest::Restart() {
  frontend_->Drain();
  frontend_.reset();
  Start();
}

std::unique_ptr<FakeWorker> FrontendTest::StartWorker(const std::string& incarnation) {
  auto worker = std::make_unique<FakeWorker>(absl::StrCat("unix:", directory_.File("state/worker.sock")), TinyModel(),
                                             incarnation);
  while (HttpGet("/readyz") != "ok\n") std::this_thread::yield();  // the model is stored before the group is ready
  return worker;
}

std::unique_ptr<grpc::ClientContext> FrontendTest::Context() {
  auto context = std::make_unique<grpc::ClientContext>();
  if (!token_.empty()) context->AddMetadata("authorization", absl::StrCat("Bearer ", token_));
  context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  return context;
}

v1::CreateVideoRequest FrontendTest::Request(const std::string& prompt) {
  v1::CreateVideoRequest request;
  request.mutable_generation()->set_prompt(prompt);
  return request;
}

absl::StatusOr<v1::Video> FrontendTest::Create(const v1::CreateVideoRequest& request) {
  v1::Video video;
  const grpc::Status status = stub_->CreateVideo(Context().get(), request, &video);
  if (!status.ok()) return FromGrpcStatus(status);
  return video;
}

absl::StatusOr<v1::Video> FrontendTest::Get(const std::string& id) {
  v1::GetVideoRequest request;
  request.set_id(id);
  v1::Video video;
  const grpc::Status status = stub_->GetVideo(Context().get(), request, &video);
  if (!status.ok()) return FromGrpcStatus(status);
  return video;
}

absl::StatusOr<v1::Video> FrontendTest::Cancel(const std::string& id) {
  v1::CancelVideoRequest request;
  request.set_id(id);
  v1::Video video;
  const grpc::Status status = stub_->CancelVideo(Context().get(), request, &video);
  if (!status.ok()) return FromGrpcStatus(status);
  return video;
}

absl::StatusOr<std::string> FrontendTest::Download(const std::string& id, int64_t offset, const std::string& artifact) {
  v1::DownloadArtifactRequest request;
  request.set_video_id(id);
  request.set_offset(offset);
  request.set_artifact_id(artifact);
  const auto context = Context();
  const auto reader = stub_->DownloadArtifact(context.get(), request);
  std::string bytes;
  for (v1::ArtifactChunk chunk; reader->Read(&chunk);) {
    EXPECT_EQ(chunk.offset(), offset + static_cast<int64_t>(bytes.size()));
    bytes += chunk.data();
    EXPECT_LE(offset + static_cast<int64_t>(bytes.size()), chunk.total_bytes());
  }
  const grpc::Status status = reader->Finish();
  if (!status.ok()) return FromGrpcStatus(status);
  return bytes;
}

absl::StatusOr<v1::Input> FrontendTest::Upload(const std::string& bytes, v1::UploadInputRequest::Header header,
                                               size_t chunk) {
  if (header.sha256().empty()) {
    header.set_sha256(Sha256Hex(bytes));
    header.set_bytes(std::ssize(bytes));
  }
  const auto context = Context();
  v1::Input input;
  const auto writer = stub_->UploadInput(context.get(), &input);
  v1::UploadInputRequest request;
  *request.mutable_header() = header;
  bool open = writer->Write(request);
  for (size_t at = header.offset(); open && at < bytes.size(); at += chunk) {
    request.set_data(bytes.substr(at, chunk));
    open = writer->Write(request);
  }
  writer->WritesDone();
  const grpc::Status status = writer->Finish();
  if (!status.ok()) return FromGrpcStatus(status);
  return input;
}

absl::StatusOr<v1::Input> FrontendTest::GetInput(const std::string& sha256) {
  v1::GetInputRequest request;
  request.set_sha256(sha256);
  v1::Input input;
  const grpc::Status status = stub_->GetInput(Context().get(), request, &input);
  if (!status.ok()) return FromGrpcStatus(status);
  return input;
}

std::vector<v1::VideoEvent> FrontendTest::WatchAll(const std::string& id, int64_t after) {
  v1::WatchVideoRequest request;
  request.set_id(id);
  request.set_after_sequence(after);
  const auto context = Context();
  const auto reader = stub_->WatchVideo(context.get(), request);
  std::vector<v1::VideoEvent> events;
  for (v1::VideoEvent event; reader->Read(&event);) events.push_back(event);
  EXPECT_THAT(FromGrpcStatus(reader->Finish()), IsOk());
  return events;
}

v1::Video FrontendTest::AwaitEnd(const std::string& id) {
  const auto events = WatchAll(id);
  KINORA_CHECK(!events.empty() && events.back().has_terminal());
  return events.back().terminal();
}

void FrontendTest::AwaitQueuedAgain(const std::string& id) {
  v1::WatchVideoRequest request;
  request.set_id(id);
  const auto context = Context();
  const auto reader = stub_->WatchVideo(context.get(), request);
  bool queued = false;
  for (v1::VideoEvent event; !queued && reader->Read(&event);) {
    const v1::Video& video = event.has_snapshot() ? event.snapshot() : event.state();
    queued = video.state() == v1::Video::QUEUED && video.attempt() == 1;
  }
  EXPECT_TRUE(queued) << id;
  context->TryCancel();
  reader->Finish();
}

std::string FrontendTest::HttpGet(const std::string& path) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(frontend_->http_port());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  KINORA_CHECK(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  const std::string request = absl::StrCat("GET ", path, " HTTP/1.0\r\n\r\n");
  KINORA_CHECK(write(fd, request.data(), request.size()) == static_cast<ssize_t>(request.size()));
  std::string reply;
  char buffer[4096];
  for (ssize_t n; (n = read(fd, buffer, sizeof(buffer))) > 0;) reply.append(buffer, n);
  close(fd);
  return reply.substr(reply.find("\r\n\r\n") + 4);
}

std::map<std::string, double> FrontendTest::Metrics() {
  std::map<std::string, double> samples;
  const std::string page = HttpGet("/metrics");
  for (const absl::string_view line : absl::StrSplit(page, '\n', absl::SkipEmpty())) {
    if (line[0] == '#') continue;
    const size_t space = line.rfind(' ');
    KINORA_CHECK(absl::SimpleAtod(line.substr(space + 1), &samples[std::string(line.substr(0, space))])) << line;
  }
  return samples;
}

}  // namespace kinora
