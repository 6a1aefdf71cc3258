#include "tests/attack/attack.h"

#include <grpcpp/grpcpp.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/net/grpc_status.h"
#include "tests/e2e/server.h"
#include "tests/testing/http2_flood.h"

namespace kinora {
namespace {

constexpr char kToken[] = "the token of the attacked server";
constexpr char kJoinToken[] = "the token of its workers";
constexpr absl::Duration kPatience = absl::Minutes(1);  // for the service to recover
constexpr double kMiB = 1 << 20;

std::unique_ptr<grpc::ClientContext> Context(const std::string& authorization) {
  auto context = std::make_unique<grpc::ClientContext>();
  context->AddMetadata("authorization", authorization);
  context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  return context;
}

int CountDescriptors(int pid) {
  int count = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator file(absl::StrCat("/proc/", pid, "/fd"), error), end; file != end && !error;
       file.increment(error)) {
    ++count;
  }
  return count;
}

// Records the maximum memory and descriptors of a process until it is stopped.
class Watch {
 public:
  explicit Watch(int pid) : thread_([this, pid] { Look(pid); }) {}
  void Stop() {
    {
      absl::MutexLock lock(&mu_);
      stopped_ = true;
    }
    thread_.join();
  }
  int64_t bytes() const { return bytes_; }  // valid after Stop
  int descriptors() const { return descriptors_; }

 private:
  void Look(int pid) {
    constexpr absl::Duration kInterval = absl::Milliseconds(20);
    Clock& clock = Clock::Steady();
    absl::MutexLock lock(&mu_);
    do {
      bytes_ = std::max(bytes_, ResidentBytes(pid));
      descriptors_ = std::max(descriptors_, CountDescriptors(pid));
    } while (!clock.AwaitUntil(mu_, absl::Condition(&stopped_), clock.Now() + kInterval));
  }

  absl::Mutex mu_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  int64_t bytes_ = 0;
  int descriptors_ = 0;
  std::thread thread_;
};

std::string WritePrivate(const std::string& path, const std::string& line) {
  std::ofstream(path) << line << "\n";
  KINORA_CHECK_EQ(chmod(path.c_str(), 0600), 0);
  return path;
}

std::vector<std::string> JoinFlags(const TemporaryDirectory& directory) {
  constexpr char kGroups[] =
      "groups { id: \"0\" worker { model: \"scripted\" http_address: \"\" } } groups { id: \"far\" outside: true }";
  return {absl::StrCat("--config=", WritePrivate(directory.File("config"), kGroups)), "--default-model=scripted",
          "--join-address=127.0.0.1:0",
          absl::StrCat("--join-token-file=", WritePrivate(directory.File("join_tokens"), kJoinToken))};
}

}  // namespace

void PrepareAttacker() {
  std::signal(SIGPIPE, SIG_IGN);
  rlimit files{};
  KINORA_CHECK_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  KINORA_CHECK_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
}

std::string Target::JoinToken() { return kJoinToken; }

int Target::descriptors() const { return CountDescriptors(pid()); }

Target::Target(const std::vector<std::string>& flags, int open_files, bool join_port) {
  const std::string token_file = WritePrivate(directory_.File("tokens"), kToken);
  const std::string limit = open_files == 0 ? "" : absl::StrCat("ulimit -n ", open_files, "; ");
  std::vector<std::string> arguments = {"/bin/sh",
                                        "-c",
                                        limit + "exec \"$0\" \"$@\"",
                                        KINORA_FRONTEND_BINARY,
                                        "--address=127.0.0.1:0",
                                        "--http-address=127.0.0.1:0",
                                        "--web-address=",
                                        absl::StrCat("--state-directory=", directory_.File("state")),
                                        absl::StrCat("--token-file=", token_file),
                                        "--min-free-bytes=0",
                                        absl::StrCat("--worker-binary=", KINORA_SCRIPTED_WORKER_BINARY)};
  const std::vector<std::string> groups =
      join_port ? JoinFlags(directory_) : std::vector<std::string>{"--worker-model=scripted", "--worker-http-address="};
  arguments.insert(arguments.end(), groups.begin(), groups.end());
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  frontend_ = std::make_unique<Process>(arguments);
  const std::string line = frontend_->AwaitLine("event=serving");
  KINORA_CHECK(!line.empty()) << frontend_->Err();
  port_ = LogField(line, "port");
  join_port_ = LogField(line, "join_port");
  KINORA_CHECK(absl::SimpleAtoi(LogField(line, "http_port"), &http_port_)) << line;
  KINORA_CHECK(!frontend_->AwaitLine("event=group_ready").empty()) << frontend_->Err();
}

std::string Target::authorization() const { return absl::StrCat("Bearer ", kToken); }

absl::StatusOr<std::string> Target::RunAJob() const {
  grpc::ChannelArguments apart;  // does not share a connection
  apart.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto stub =
      v1::VideoGeneration::NewStub(grpc::CreateCustomChannel(address(), grpc::InsecureChannelCredentials(), apart));
  v1::CreateVideoRequest request;
  request.mutable_generation()->set_prompt("steps=1");
  v1::Video video;
  KINORA_RETURN_IF_ERROR(FromGrpcStatus(stub->CreateVideo(Context(authorization()).get(), request, &video)));
  v1::WatchVideoRequest watch;
  watch.set_id(video.id());
  const auto context = Context(authorization());
  const auto reader = stub->WatchVideo(context.get(), watch);
  for (v1::VideoEvent event; reader->Read(&event);) {
    if (event.has_terminal()) video = event.terminal();
  }
  KINORA_RETURN_IF_ERROR(FromGrpcStatus(reader->Finish()));
  if (video.state() != v1::Video::COMPLETED || video.attempt() != 1) {
    return absl::InternalError(absl::StrCat("a job ended ", v1::Video::State_Name(video.state()), " at attempt ",
                                            video.attempt(), ": ", video.error().message()));
  }
  return video.id();
}

absl::Status Target::Serves() const {
  KINORA_RETURN_IF_ERROR(RunAJob().status());
  for (const char* page : {"/livez", "/readyz"}) KINORA_RETURN_IF_ERROR(PageIsOk(page));
  return absl::OkStatus();
}

absl::Status Target::PageIsOk(const std::string& page) const {
  try {
    const std::string reply = HttpGet(http_port_, page);
    if (reply.find(" 200 ") != std::string::npos) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat(page, ": ", reply));
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat(page, ": ", error.what()));
  }
}

int Measure(const MeasuredAttack& measured) {
  Clock& clock = Clock::Steady();
  absl::Status status = measured.serves();
  KINORA_CHECK(status.ok()) << status << measured.log();
  const int64_t before = ResidentBytes(measured.pid);
  Watch watch(measured.pid);
  Effort effort;
  const absl::Time begin = clock.Now();
  status = measured.attack(effort);
  const absl::Time end = clock.Now();
  watch.Stop();
  absl::Status served;
  do {
    served = measured.serves();
  } while (!served.ok() && clock.Now() - end < kPatience);
  const double back = absl::ToDoubleSeconds(clock.Now() - end);
  std::printf(
      "%s: connections %" PRId64 ", bytes %" PRId64
      ", seconds %.1f, resident MiB before %.0f, during %.0f, after %.0f, most descriptors %d, back in %.1f s\n",
      measured.name.c_str(), effort.connections.load(), effort.bytes.load(), absl::ToDoubleSeconds(end - begin),
      before / kMiB, watch.bytes() / kMiB, ResidentBytes(measured.pid) / kMiB, watch.descriptors(), back);
  if (status.ok() && watch.bytes() - before > measured.most_growth_bytes) {
    status = absl::ResourceExhaustedError(absl::StrCat("resident memory grew by ", watch.bytes() - before, " bytes; ",
                                                       measured.most_growth_bytes, " are allowed"));
  }
  if (status.ok()) status = served;
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s: %s\nThe attacked process said:\n%s\n", measured.name.c_str(), status.ToString().c_str(),
               measured.log().c_str());
  return 1;
}

int RunAttack(const AttackPlan& plan) {
  PrepareAttacker();
  const Target target(plan.flags, plan.open_files, plan.join_port);
  return Measure({.name = plan.name,
                  .pid = target.pid(),
                  .most_growth_bytes = plan.most_growth_bytes,
                  .attack = [&](Effort& effort) { return plan.attack(target, effort); },
                  .serves = [&] { return target.Serves(); },
                  .log = [&] { return target.Log(); }});
}

}  // namespace kinora
