// `kinora` against a server that hangs, breaks streams, is full or is missing. The test implements the service itself,
// to inject faults at specific calls.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/common/sha256.h"
#include "server/common/status_details.h"
#include "server/net/grpc_status.h"
#include "tests/e2e/scripted_server.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr absl::Duration kPrompt = absl::Seconds(20);  // less than the 30 s timeout of a call
const std::string& Content() {
  static const auto* const content = new std::string(3000, 'c');
  return *content;
}

std::string IdOf(int n) { return absl::StrFormat("%032d", n); }

v1::Video VideoOf(const std::string& id, v1::Video::State state) {
  v1::Video video;
  video.set_id(id);
  video.set_state(state);
  if (state != v1::Video::COMPLETED) return video;
  v1::Artifact& artifact = *video.add_artifacts();
  artifact.set_id("video.mp4");
  artifact.set_file_name("video.mp4");
  artifact.set_bytes(static_cast<int64_t>(Content().size()));
  artifact.set_sha256(Sha256Hex(Content()));
  return video;
}

class Service final : public v1::VideoGeneration::Service {
 public:
  using Events = grpc::ServerWriter<v1::VideoEvent>;
  using Chunks = grpc::ServerWriter<v1::ArtifactChunk>;

  // Behaviour of calls by their number, starting with 1.
  std::function<grpc::Status(int n)> on_create = [](int) { return grpc::Status::OK; };
  std::function<grpc::Status(int n)> on_watch_begin = [](int) { return grpc::Status::OK; };
  std::function<void(const std::string& id)> on_watch = [](const std::string&) {};  // before the terminal event
  std::function<grpc::Status(const std::string& id)> on_cancel = [](const std::string&) { return grpc::Status::OK; };
  v1::Video::State cancelled_to = v1::Video::CANCELLED;  // result of CancelVideo
  std::function<grpc::Status(int n)> on_delete = [](int) { return grpc::Status::OK; };
  std::function<grpc::Status(int n, int64_t offset, Chunks& chunks)> on_download = SendTheRest;

  static grpc::Status SendTheRest(int, int64_t offset, Chunks& chunks) {
    Send(chunks, offset, static_cast<int64_t>(Content().size()));
    return grpc::Status::OK;
  }
  static void Send(Chunks& chunks, int64_t offset, int64_t end) {
    v1::ArtifactChunk chunk;
    chunk.set_offset(offset);
    chunk.set_data(Content().substr(offset, end - offset));
    chunks.Write(chunk);
  }

  grpc::Status GenerateVideo(grpc::ServerContext*, const v1::CreateVideoRequest*, Events* events) override {
    return Watch(IdOf(1), *events);
  }
  grpc::Status CreateVideo(grpc::ServerContext*, const v1::CreateVideoRequest*, v1::Video* video) override {
    grpc::Status status = on_create(++creations_);
    if (status.ok()) *video = VideoOf(IdOf(++created_), v1::Video::QUEUED);
    return status;
  }
  grpc::Status WatchVideo(grpc::ServerContext*, const v1::WatchVideoRequest* request, Events* events) override {
    return Watch(request->id(), *events);
  }
  grpc::Status CancelVideo(grpc::ServerContext*, const v1::CancelVideoRequest* request, v1::Video* video) override {
    grpc::Status status = on_cancel(request->id());
    absl::MutexLock lock(&mu_);
    if (status.ok()) cancelled_.insert(request->id());
    *video = VideoOf(request->id(), cancelled_to);
    return status;
  }
  grpc::Status DeleteVideo(grpc::ServerContext*, const v1::DeleteVideoRequest*, google::protobuf::Empty*) override {
    return on_delete(++deletions_);
  }
  // Lists the first job until a client has tried to delete it.
  grpc::Status ListVideos(grpc::ServerContext*, const v1::ListVideosRequest*, v1::ListVideosResponse* reply) override {
    if (deletions_ == 0) *reply->add_videos() = VideoOf(IdOf(1), v1::Video::COMPLETED);
    return grpc::Status::OK;
  }
  grpc::Status GetVideo(grpc::ServerContext*, const v1::GetVideoRequest* request, v1::Video* video) override {
    *video = VideoOf(request->id(), v1::Video::COMPLETED);
    return grpc::Status::OK;
  }
  grpc::Status DownloadArtifact(grpc::ServerContext*, const v1::DownloadArtifactRequest* request,
                                Chunks* chunks) override {
    return on_download(++downloads_, request->offset(), *chunks);
  }

  int creations() const { return creations_; }
  int downloads() const { return downloads_; }
  bool IsCancelled(const std::string& id) {
    absl::MutexLock lock(&mu_);
    return cancelled_.contains(id);
  }
  void AwaitCancelOf(const std::string& id) {
    const auto there = [&] {
      mu_.AssertHeld();
      return cancelled_.contains(id);
    };
    absl::MutexLock lock(&mu_);
    mu_.AwaitWithTimeout(absl::Condition(&there), absl::Minutes(1));
  }

 private:
  grpc::Status Watch(const std::string& id, Events& events) {
    if (grpc::Status status = on_watch_begin(++watches_); !status.ok()) return status;
    v1::VideoEvent event;
    event.set_video_id(id);
    *event.mutable_snapshot() = VideoOf(id, v1::Video::RUNNING);
    events.Write(event);
    on_watch(id);
    absl::MutexLock lock(&mu_);
    *event.mutable_terminal() = VideoOf(id, cancelled_.contains(id) ? v1::Video::CANCELLED : v1::Video::COMPLETED);
    events.Write(event);
    return grpc::Status::OK;
  }

  std::atomic<int> creations_ = 0, created_ = 0, watches_ = 0, deletions_ = 0, downloads_ = 0;
  absl::Mutex mu_;
  std::set<std::string> cancelled_ ABSL_GUARDED_BY(mu_);
};

grpc::Status QueueFull() {
  return ToGrpcStatus(WithErrorInfo(absl::ResourceExhaustedError("queue_capacity: 2 jobs wait"), "QUEUE_FULL"));
}

grpc::Status Draining() {
  return ToGrpcStatus(WithRetryInfo(absl::UnavailableError("the server is draining"), absl::Seconds(1)));
}

class ClientFaults : public testing::Test {
 protected:
  ~ClientFaults() override { Stop(); }
  void Start() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }
  void Stop() {
    if (!released_.HasBeenNotified()) released_.Notify();
    if (server_ != nullptr) server_->Shutdown(absl::ToChronoTime(absl::Now()));
    server_.reset();
  }
  std::vector<std::string> Client(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), KINORA_CLIENT_BINARY);
    arguments.push_back("--server=" + address_);
    return arguments;
  }
  // Notifies `there` that a call has arrived, and blocks it until the test ends.
  void Hold(absl::Notification& there) {
    {
      absl::MutexLock lock(&hold_mu_);  // calls may arrive at the same time
      if (!there.HasBeenNotified()) there.Notify();
    }
    released_.WaitForNotification();
  }
  static void Await(absl::Notification& there) { ASSERT_TRUE(there.WaitForNotificationWithTimeout(absl::Minutes(1))); }

  // Sends the second Ctrl-C while the server does not answer the cancel of the first. Returns the client's messages.
  std::string InterruptTwice(const std::vector<std::string>& command) {
    absl::Notification watching, cancelling;
    service_.on_watch = [&](const std::string&) { Hold(watching); };
    service_.on_cancel = [&](const std::string&) {
      Hold(cancelling);
      return grpc::Status::OK;
    };
    Start();
    Process client(Client(command));
    Await(watching);
    client.Signal(SIGINT);
    Await(cancelling);
    const absl::Time begin = absl::Now();
    client.Signal(SIGINT);
    EXPECT_EQ(client.Wait(), kCancelled);
    EXPECT_LT(absl::Now() - begin, kPrompt);
    client.AwaitEndOfOutput();
    Stop();  // its handlers use variables of this function
    return client.Err();
  }

  // Makes a download send only its first chunk.
  void HoldDownload(absl::Notification& downloading) {
    service_.on_download = [&](int, int64_t offset, Service::Chunks& chunks) {
      Service::Send(chunks, offset, 1000);
      Hold(downloading);
      return grpc::Status::OK;
    };
  }

  TemporaryDirectory directory_;
  const std::string address_ = absl::StrCat("unix:", directory_.File("api.sock"));
  absl::Notification released_;
  absl::Mutex hold_mu_;
  Service service_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(ClientFaults, CtrlCWhileTheFinishedClipIsFetchedLeavesItToTheServer) {
  absl::Notification downloading;
  HoldDownload(downloading);
  Start();
  const std::string path = directory_.File("x.mp4");
  Process client(Client({"generate", "x", "-o", path}));
  Await(downloading);
  const absl::Time begin = absl::Now();
  client.Signal(SIGINT);
  EXPECT_EQ(client.Wait(), kUnreachable);
  EXPECT_LT(absl::Now() - begin, kPrompt);
  client.AwaitEndOfOutput();
  EXPECT_THAT(client.Err(),
              HasSubstr(absl::StrCat("download interrupted; the server keeps the file; fetch it with: kinora download ",
                                     IdOf(1))));
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST_F(ClientFaults, CtrlCLeavesNothingOfADownloadThatIsNotWhole) {
  absl::Notification downloading;
  HoldDownload(downloading);
  Start();
  const std::string folder = directory_.File("clips");
  Process client(Client({"download", IdOf(1), "-o", folder + "/x.mp4"}));
  Await(downloading);
  client.Signal(SIGINT);
  EXPECT_EQ(client.Wait(), kUnreachable);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  Stop();
}

// The first Ctrl-C cancels the unfinished clips and still downloads the finished one; the second ends the download.
TEST_F(ClientFaults, ASecondCtrlCWhileAClipOfABatchIsFetchedLeavesItToTheServer) {
  absl::Notification downloading;
  service_.on_download = [&](int, int64_t, Service::Chunks&) {
    Hold(downloading);
    return grpc::Status::OK;
  };
  service_.on_watch = [&](const std::string& id) {
    if (id != IdOf(1)) service_.AwaitCancelOf(id);
  };
  Start();
  Process client(Client({"generate", "x", "--count=2", "-o", directory_.File("{n}.mp4")}));
  Await(downloading);
  client.Signal(SIGINT);
  service_.AwaitCancelOf(IdOf(2));
  const absl::Time begin = absl::Now();
  client.Signal(SIGINT);
  EXPECT_EQ(client.Wait(), kCancelled);
  EXPECT_LT(absl::Now() - begin, kPrompt);
  client.AwaitEndOfOutput();
  EXPECT_THAT(client.Err(),
              HasSubstr("download interrupted; the server keeps the file; fetch it with: kinora download " + IdOf(1)));
}

TEST_F(ClientFaults, ASecondCtrlCEndsAClientWhoseCancelHangs) {
  const std::string said = InterruptTwice({"generate", "x", "-o", directory_.File("x.mp4")});
  EXPECT_THAT(said, AllOf(HasSubstr("left job " + IdOf(1)), Not(HasSubstr("could not be cancelled"))));
}

TEST_F(ClientFaults, ASecondCtrlCEndsABatchWhoseCancelsHang) {
  const std::string said = InterruptTwice({"generate", "x", "--count=3", "-o", directory_.File("{n}.mp4")});
  EXPECT_THAT(said, AllOf(HasSubstr("left 3 of 3 clips"), Not(HasSubstr("could not be cancelled"))));
}

// Other clients fill the queue while it contains no job of the batch.
TEST_F(ClientFaults, ABatchWaitsForRoomInAQueueThatOthersFill) {
  service_.on_create = [](int n) { return n == 1 || n == 5 || n >= 7 ? grpc::Status::OK : QueueFull(); };
  Start();
  const Result result = RunToEnd(Client({"generate", "x", "--count=3", "-o", directory_.File("{n}.mp4")}));
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("the server's queue is full; waiting"));
  for (const char* name : {"1.mp4", "2.mp4", "3.mp4"})
    EXPECT_EQ(access(directory_.File(name).c_str(), F_OK), 0) << name;
}

TEST_F(ClientFaults, ABatchWhoseFirstClipFindsNoRoomWaitsForAsLongAsReconnectSays) {
  service_.on_create = [](int) { return QueueFull(); };
  Start();
  const Result result =
      RunToEnd(Client({"generate", "x", "--count=2", "--reconnect=2s", "-o", directory_.File("{n}.mp4")}));
  EXPECT_EQ(result.status, kRefused) << result.err;
  EXPECT_GE(service_.creations(), 2);
}

TEST_F(ClientFaults, AFullQueueIsAskedAgainWhenItSays) {
  std::vector<absl::Time> times;
  service_.on_create = [&](int n) {
    times.push_back(absl::Now());
    const absl::Status full = absl::ResourceExhaustedError("queue_capacity: 2 jobs wait");
    return n > 1 ? grpc::Status::OK : ToGrpcStatus(WithErrorInfo(WithRetryInfo(full, absl::Seconds(3)), "QUEUE_FULL"));
  };
  Start();
  EXPECT_EQ(RunToEnd(Client({"create", "x"})).status, 0);
  ASSERT_EQ(times.size(), 2U);
  EXPECT_GT(times[1] - times[0], absl::Seconds(2));
}

// The server accepts the clip, but its answer is lost.
TEST_F(ClientFaults, AClipThatWasPerhapsQueuedWhenItsBatchIsCancelledIsCancelledToo) {
  absl::Notification creating;
  service_.on_create = [&](int n) {
    if (n == 1) Hold(creating);
    return grpc::Status::OK;
  };
  Start();
  Process client(Client({"generate", "x", "--count=2", "--timeout=3s", "-o", directory_.File("{n}.mp4")}));
  Await(creating);
  client.Signal(SIGINT);
  EXPECT_EQ(client.Wait(), kCancelled);
  EXPECT_TRUE(service_.IsCancelled(IdOf(1)));
  Stop();
}

TEST_F(ClientFaults, ADownloadThatGoesSilentIsBegunAgain) {
  absl::Notification silent;
  service_.on_download = [&](int n, int64_t offset, Service::Chunks& chunks) {
    if (n > 1) return Service::SendTheRest(n, offset, chunks);
    Service::Send(chunks, offset, 1000);
    Hold(silent);
    return grpc::Status::OK;
  };
  Start();
  const Result result = RunToEnd(Client({"download", IdOf(1), "-o", directory_.File("x.mp4"), "--reconnect=10s"}));
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(service_.downloads(), 2);
  Stop();
}

TEST_F(ClientFaults, ADownloadOfWhatTheServerHasLostIsNotTriedAgain) {
  service_.on_download = [](int, int64_t, Service::Chunks&) {
    return ToGrpcStatus(WithErrorInfo(absl::UnavailableError("the state is gone"), "STATE_LOST"));
  };
  Start();
  const Result result = RunToEnd(Client({"download", IdOf(1), "-o", directory_.File("x.mp4")}));
  EXPECT_EQ(result.status, kUnreachable) << result.err;
  EXPECT_EQ(service_.downloads(), 1);
}

TEST_F(ClientFaults, ACancelThatWaitsOutlivesARestartBeforeTheFirstEvent) {
  service_.cancelled_to = v1::Video::RUNNING;
  service_.on_watch_begin = [](int n) { return n % 2 == 1 ? Draining() : grpc::Status::OK; };
  Start();
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"cancel", "--wait", IdOf(1)}, {"delete", "--force", IdOf(1)}}) {
    const Result result = RunToEnd(Client(command));
    EXPECT_EQ(result.status, 0) << command[0] << result.err;
  }
}

// The server deletes the job, but its answer is lost. The retry finds no job with this id prefix.
TEST_F(ClientFaults, ADeleteWhoseAnswerWasLostHasDeleted) {
  absl::Notification deleting;
  service_.on_delete = [&](int n) {
    if (n == 1) Hold(deleting);
    return n == 1 ? grpc::Status::OK : grpc::Status(grpc::StatusCode::NOT_FOUND, "no such job");
  };
  Start();
  Process client(Client({"delete", "0000"}));
  Await(deleting);
  std::thread stop([&] { server_->Shutdown(absl::ToChronoTime(absl::Now())); });
  EXPECT_NE(client.AwaitLine("waiting for the server at"), "") << client.Err();
  released_.Notify();
  stop.join();
  server_.reset();
  Start();
  EXPECT_EQ(client.Wait(), 0) << client.Err();
}

TEST_F(ClientFaults, ADownloadGoesOnWhereItBrokeWithPausesForAsLongAsReconnectSays) {
  std::vector<absl::Time> times;
  service_.on_download = [&](int n, int64_t offset, Service::Chunks& chunks) {
    times.push_back(absl::Now());
    if (n > 3 && n < 6) {
      Service::Send(chunks, offset, offset + 1000);
    } else if (n == 6) {
      return Service::SendTheRest(n, offset, chunks);
    }
    return grpc::Status(n == 5 ? grpc::StatusCode::ABORTED : grpc::StatusCode::UNAVAILABLE, "broken");
  };
  Start();
  const std::string path = directory_.File("x.mp4");
  const Result whole = RunToEnd(Client({"download", IdOf(1), "-o", path}));
  EXPECT_EQ(whole.status, 0) << whole.err;
  ASSERT_EQ(times.size(), 6U);
  const double least[] = {0.18, 0.37, 0.75, 0.18, 0.18};  // three quarters of each pause
  for (int i = 0; i < 5; ++i) EXPECT_GT(absl::ToDoubleSeconds(times[i + 1] - times[i]), least[i]) << i;

  service_.on_download = [](int, int64_t, Service::Chunks&) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "broken");
  };
  const int before = service_.downloads();
  const Result never = RunToEnd(Client({"download", IdOf(1), "-o", path, "--reconnect=3s"}));
  EXPECT_EQ(never.status, kUnreachable);
  EXPECT_GE(service_.downloads() - before, 2);  // however slow the machine is
  EXPECT_LE(service_.downloads() - before, 8);
}

TEST_F(ClientFaults, CommandsThatActOnAJobWaitForTheServer) {
  const std::vector<std::vector<std::string>> commands = {{"cancel", IdOf(1)},
                                                          {"delete", IdOf(1)},
                                                          {"watch", IdOf(1)},
                                                          {"download", IdOf(1), "-o", directory_.File("x.mp4")}};
  std::vector<std::unique_ptr<Process>> clients;
  for (const auto& command : commands) {
    std::vector<std::string> at_once = command;
    at_once.emplace_back("--no-wait");
    EXPECT_EQ(RunToEnd(Client(at_once)).status, kUnreachable) << command[0];
    clients.push_back(std::make_unique<Process>(Client(command)));
    EXPECT_NE(clients.back()->AwaitLine("waiting for the server at"), "") << command[0] << clients.back()->Err();
  }
  Start();
  for (const auto& client : clients) EXPECT_THAT(client->Wait(), testing::AnyOf(0, kCancelled)) << client->Err();
}

}  // namespace
}  // namespace kinora
