// Puts a steady load on a frontend, or several that share a database and a bucket: idle watchers, and jobs created at a
// fixed rate that does not wait for answers. Scripted groups end each job after a moment. Reports whether each job was
// accepted and COMPLETED once, how long that took, and the growth of the first frontend's process and state.
// docs/performance.md, "A frontend under load".
//
// With --http-rate or --http-watchers, also on a gateway in front of it: event streams and creations over HTTP.
//
//   serving_load [--rate 100] [--duration 10m] [--watchers 1000] [--groups 8] [--run 50ms] [--folder DIR]
//                [--http-rate 0] [--http-watchers 0] [--store sqlite]
//                [--frontends 1 --artifacts s3://BUCKET/PREFIX --s3-endpoint URL]
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <thread>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "engine/base/command_line.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/common/timestamps.h"
#include "server/request/model_conversion.h"
#include "tests/bench/http_load.h"
#include "tests/bench/load_report.h"
#include "tests/request/descriptions.h"
#include "tests/testing/fake_worker.h"
#include "tests/testing/free_port.h"
#include "tests/testing/subprocess.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

constexpr FlagSpec kFlags[] = {
    {"rate", "N", "jobs created per second; absent: 100"},
    {"duration", "DURATION", "for so long; absent: 10m"},
    {"watchers", "N", "open watches of a job that does not move; absent: 1000"},
    {"groups", "N", "scripted worker groups; absent: 8"},
    {"run", "DURATION", "after which a group ends its job; absent: 50ms"},
    {"http-rate", "N", "jobs created per second through a gateway; absent: 0"},
    {"http-watchers", "N", "event streams through a gateway, of a job that does not move; absent: 0"},
    {"store", "sqlite|URL", "where jobs are stored; a database must be empty; absent: sqlite"},
    {"frontends", "N", "frontends, among which watches, jobs and groups are spread; absent: 1"},
    {"artifacts", "URL", "where clips are stored; absent: a folder"},
    {"s3-endpoint", "URL", "of artifacts in a bucket, which is in the path of its URLs"},
    {"folder", "FOLDER", "where the state is kept, on the disk that is meant; absent: a temporary one"},
};

struct Load {
  int rate = 100, watchers = 1000, groups = 8, http_rate = 0, http_watchers = 0, frontends = 1;
  absl::Duration duration = absl::Minutes(10), run = absl::Milliseconds(50);
  std::string folder, store, artifacts, s3_endpoint;
  std::string File(const std::string& name, int frontend = 0) const {
    return absl::StrCat(folder, "/", frontend % frontends, "/", name);
  }
};

// Ends each job after `run`, until it is destroyed.
class Group {
 public:
  Group(const Load& load, const v1::ModelInfo& model, int number)
      : worker_("unix:" + load.File("state/worker.sock", number), model, "one", absl::StrCat("g", number)),
        thread_([this, run = load.run] {
          while (!stopping_) {
            const auto message = worker_.NextWithin(absl::Milliseconds(200));
            if (!message || !message->has_run()) continue;
            absl::SleepFor(run);  // the job
            worker_.Complete(message->run(), "a clip");
            ++runs_;
          }
        }) {}
  ~Group() {
    stopping_ = true;
    thread_.join();
  }
  int runs() const { return runs_; }

 private:
  FakeWorker worker_;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> runs_ = 0;
  std::thread thread_;
};

class IdleWatch : public grpc::ClientReadReactor<v1::VideoEvent> {
 public:
  IdleWatch(v1::VideoGeneration::Stub& stub, const std::string& id, std::atomic<int>& open) : open_(open) {
    request_.set_id(id);
    stub.async()->WatchVideo(&context_, &request_, this);
    StartRead(&event_);
    StartCall();
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (event_.has_snapshot()) ++open_;
    StartRead(&event_);
  }
  void OnDone(const grpc::Status& status) override {
    if (status.error_code() != grpc::StatusCode::CANCELLED) --open_;
    done_.Notify();
  }
  void End() {
    context_.TryCancel();
    done_.WaitForNotification();
  }

 private:
  grpc::ClientContext context_;
  v1::WatchVideoRequest request_;
  v1::VideoEvent event_;
  std::atomic<int>& open_;
  absl::Notification done_;
};

// Unanswered calls, and the results of the answered ones.
class Creator {
 public:
  explicit Creator(std::vector<std::unique_ptr<v1::VideoGeneration::Stub>> stubs) : stubs_(std::move(stubs)) {}
  void Create(absl::Time due) {
    auto* call = new Call{.due = due};
    call->request.set_model("busy");
    call->request.mutable_generation()->set_prompt("a kite");
    ++open_;
    v1::VideoGeneration::Stub& stub = *stubs_[turn_++ % stubs_.size()];
    stub.async()->CreateVideo(&call->context, &call->request, &call->video, [this, call](const grpc::Status& status) {
      {
        absl::MutexLock lock(&mu_);
        status.ok() ? latencies_.push_back(absl::ToDoubleSeconds(absl::Now() - call->due))
                    : refused_.push_back(status.error_message());
      }
      delete call;
      --open_;
    });
  }
  int open() const { return open_; }
  std::vector<double> latencies() const {
    absl::MutexLock lock(&mu_);
    return latencies_;
  }
  std::vector<std::string> refused() const {
    absl::MutexLock lock(&mu_);
    return refused_;
  }

 private:
  struct Call {
    absl::Time due;
    grpc::ClientContext context{};
    v1::CreateVideoRequest request{};
    v1::Video video{};
  };
  const std::vector<std::unique_ptr<v1::VideoGeneration::Stub>> stubs_;  // of each frontend
  size_t turn_ = 0;
  std::atomic<int> open_ = 0;
  mutable absl::Mutex mu_;
  std::vector<double> latencies_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> refused_ ABSL_GUARDED_BY(mu_);
};

std::unique_ptr<v1::VideoGeneration::Stub> StubOf(const Load& load, int number, int frontend = 0) {
  grpc::ChannelArguments own;  // does not share a connection
  own.SetInt("kinora.bench.connection", number);
  return v1::VideoGeneration::NewStub(
      grpc::CreateCustomChannel("unix:" + load.File("api.sock", frontend), grpc::InsecureChannelCredentials(), own));
}

v1::ModelInfo Model(const std::string& id) { return ToModelInfo(DescribeModel(Tiny()), id); }

std::vector<std::string> FrontendCommand(const Load& load, int frontend) {
  std::filesystem::create_directories(load.File("", frontend));
  const auto file = [&](const std::string& name) { return load.File(name, frontend); };
  WriteFile(file("idle.textproto"), Model("idle").SerializeAsString());
  std::vector<std::string> command = {KINORA_FRONTEND_BINARY,
                                      "--address=unix:" + file("api.sock"),
                                      "--store=" + load.store,
                                      "--state-directory=" + file("state"),
                                      "--http-address=",
                                      "--min-free-bytes=0",
                                      "--queue-capacity=10000",
                                      absl::StrCat("--max-watchers=", load.watchers + load.http_watchers + 10),
                                      "--worker-heartbeat-timeout-seconds=86400",
                                      "--model-description=" + file("idle.textproto")};
  if (!load.artifacts.empty()) command.push_back("--artifacts=" + load.artifacts);
  if (!load.s3_endpoint.empty()) {
    command.insert(command.end(), {"--s3-path-style", "--s3-endpoint=" + load.s3_endpoint});
  }
  if (load.frontends == 1) return command;
  WriteFile(file("peers"), "the token of all frontends");
  std::filesystem::permissions(file("peers"), std::filesystem::perms::owner_read);
  command.insert(command.end(),
                 {absl::StrCat("--peer-address=127.0.0.1:", FreePort()), "--peer-token-file=" + file("peers")});
  return command;
}

std::vector<std::unique_ptr<Subprocess>> StartFrontends(const Load& load) {
  std::vector<std::unique_ptr<Subprocess>> frontends(load.frontends);
  for (int i = 0; i < load.frontends; ++i) {
    frontends[i] = std::make_unique<Subprocess>(FrontendCommand(load, i));
    while (frontends[i]->ErrSoFar().find("event=serving") == std::string::npos) absl::SleepFor(absl::Milliseconds(10));
  }
  return frontends;
}

// Lists every job of the frontend once: the time from creation to end of jobs that were COMPLETED at the first attempt,
// and the number of others.
struct Ends {
  std::vector<double> seconds;
  std::set<std::string> ids;
  int64_t others = 0;
};
Ends ListEnds(v1::VideoGeneration::Stub& stub) {
  Ends ends;
  v1::ListVideosRequest request;
  request.set_page_size(500);
  do {
    grpc::ClientContext context;
    v1::ListVideosResponse page;
    OrDie(stub.ListVideos(&context, request, &page));
    for (const v1::Video& video : page.videos()) {
      if (video.model() == "idle") continue;
      const bool once =
          video.state() == v1::Video::COMPLETED && video.attempt() == 1 && ends.ids.insert(video.id()).second;
      if (!once) ++ends.others;
      if (once)
        ends.seconds.push_back(absl::ToDoubleSeconds(FromProto(video.end_time()) - FromProto(video.create_time())));
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return ends;
}

// Creates jobs at the rate, regardless of the answers. Calls `look` once per second.
void Drive(int rate, absl::Duration duration, const std::function<void(absl::Time due)>& create,
           const std::function<void()>& look) {
  const absl::Time begin = absl::Now();
  const auto jobs = static_cast<int64_t>(rate * absl::ToDoubleSeconds(duration));
  for (int64_t job = 0; job < jobs; ++job) {
    const absl::Time due = begin + job * absl::Seconds(1) / rate;
    absl::SleepFor(due - absl::Now());
    create(due);
    if (job % rate == 0) look();
  }
  look();
}

// Both loads at once. `http`: may be null.
std::pair<Growth, Growth> DriveAll(const Load& load, pid_t frontend, Creator& creator, HttpLoad* http) {
  Growth growth(frontend, load.File("state")), gateway(http == nullptr ? frontend : http->gateway(), load.folder);
  std::thread over_http;
  if (http != nullptr) {
    over_http = std::thread([&] {
      Drive(
          load.http_rate, load.duration, [&](absl::Time due) { http->Create(due); }, [&] { gateway.Look(); });
    });
  }
  Drive(
      load.rate, load.duration, [&](absl::Time due) { creator.Create(due); }, [&] { growth.Look(); });
  if (over_http.joinable()) over_http.join();
  return {growth, gateway};
}

void AwaitAll(const std::vector<std::unique_ptr<Group>>& groups, const Creator& creator, const HttpLoad* http) {
  const absl::Time end = absl::Now() + absl::Minutes(5);
  const auto ended = [&] {
    int64_t runs = 0;
    for (const auto& group : groups) runs += group->runs();
    const bool answered = creator.open() == 0 && (http == nullptr || http->waiting() == 0);
    return answered && runs >= std::ssize(creator.latencies()) + (http == nullptr ? 0 : std::ssize(http->latencies()));
  };
  while (!ended() && absl::Now() < end) absl::SleepFor(absl::Milliseconds(50));
}

// Prints what the gateway did. Returns whether it kept all streams and accepted all jobs.
bool HttpHeld(const Load& load, const HttpLoad& http, const Growth& gateway) {
  PrintHttpLoad(http.latencies(), http.refused(), http.watchers(), gateway);
  return http.refused().empty() && http.watchers() == load.http_watchers;
}

int Run(const Load& load) {
  const std::vector<std::unique_ptr<Subprocess>> frontends = StartFrontends(load);
  std::vector<std::unique_ptr<Group>> groups;
  groups.reserve(load.groups);
  for (int i = 0; i < load.groups; ++i) groups.push_back(std::make_unique<Group>(load, Model("busy"), i));
  const auto stub = StubOf(load, -1);
  v1::CreateVideoRequest request;
  request.set_model("idle");
  v1::Video idle;
  grpc::ClientContext context;
  OrDie(stub->CreateVideo(&context, request, &idle));

  constexpr int kPerConnection = 100;
  std::atomic<int> open = 0;
  std::vector<std::unique_ptr<v1::VideoGeneration::Stub>> stubs;
  std::vector<std::unique_ptr<IdleWatch>> watches;
  for (int i = 0; i < load.watchers; ++i) {
    if (i % kPerConnection == 0) stubs.push_back(StubOf(load, i, i / kPerConnection));
    watches.push_back(std::make_unique<IdleWatch>(*stubs.back(), idle.id(), open));
    while (open <= i) absl::SleepFor(absl::Milliseconds(1));  // limits the number of calls that are being opened
  }
  AwaitModel(*stub, "busy");
  std::unique_ptr<HttpLoad> http;
  if (load.http_rate > 0 || load.http_watchers > 0) {
    http = std::make_unique<HttpLoad>("unix:" + load.File("api.sock"), load.http_watchers, idle.id());
  }
  std::vector<std::unique_ptr<v1::VideoGeneration::Stub>> of_each;
  of_each.reserve(load.frontends);
  for (int i = 0; i < load.frontends; ++i) of_each.push_back(StubOf(load, -2 - i, i));
  Creator creator(std::move(of_each));
  const auto [growth, gateway] = DriveAll(load, frontends[0]->pid(), creator, http.get());
  AwaitAll(groups, creator, http.get());
  const Ends ends = ListEnds(*stub);
  int64_t runs = 0;
  for (const auto& group : groups) runs += group->runs();
  PrintLoad({.jobs = std::ssize(creator.latencies()),
             .refused = creator.refused(),
             .completed_once = std::ssize(ends.ids),
             .others = ends.others,
             .runs = runs,
             .watchers_left = open,
             .create = creator.latencies(),
             .to_end = ends.seconds},
            growth);
  const bool http_held = http == nullptr || HttpHeld(load, *http, gateway);
  const int64_t http_jobs = http == nullptr ? 0 : std::ssize(http->latencies());
  for (const auto& watch : watches) watch->End();
  const bool held = creator.refused().empty() && ends.others == 0 && runs == std::ssize(ends.ids) &&
                    std::ssize(ends.ids) == std::ssize(creator.latencies()) + http_jobs && open == load.watchers;
  return held && http_held ? 0 : 1;
}

int Main(const std::vector<std::string>& arguments) {
  if (absl::c_linear_search(arguments, "--help")) {
    std::printf("serving_load puts a steady load on a frontend and a gateway.\n\n%s", FormatFlags(kFlags).c_str());
    return 0;
  }
  const auto line = CommandLine::Parse(kFlags, arguments);
  if (!line.ok()) {
    std::fprintf(stderr, "serving_load: %s\n", std::string(line.status().message()).c_str());
    return 2;
  }
  Load load;
  for (auto [flag, value] : {std::pair{"rate", &load.rate},
                             {"watchers", &load.watchers},
                             {"groups", &load.groups},
                             {"frontends", &load.frontends},
                             {"http-rate", &load.http_rate},
                             {"http-watchers", &load.http_watchers}}) {
    if (const auto text = line->Get(flag); text && !absl::SimpleAtoi(*text, value)) return 2;
  }
  if (const auto duration = line->GetDuration("duration"); duration.ok() && *duration) load.duration = **duration;
  if (const auto run = line->GetDuration("run"); run.ok() && *run) load.run = **run;
  const TemporaryDirectory own;
  load.folder = line->Get("folder").value_or(own.path());
  load.store = line->Get("store").value_or("sqlite");
  load.artifacts = line->Get("artifacts").value_or("");
  load.s3_endpoint = line->Get("s3-endpoint").value_or("");
  return Run(load);
}

}  // namespace
}  // namespace kinora

int main(int argc, char** argv) { return kinora::Main({argv + 1, argv + argc}); }
