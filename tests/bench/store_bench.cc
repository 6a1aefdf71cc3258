// Measures single operations on the job store with increasing numbers of jobs, in SQLite's default durability, and on
// the queue with as many waiting jobs. docs/performance.md, "A frontend under load".
//
//   store_bench [JOBS...]   default: 10000 100000
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "server/frontend/jobs/job_queue.h"
#include "server/frontend/jobs/sqlite_job_store.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

constexpr int kRepetitions = 201;
constexpr absl::Duration kLease = absl::Minutes(10);

void OrDie(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

v1::CreateVideoRequest Request() {
  v1::CreateVideoRequest request;
  request.set_model("m");
  request.mutable_generation()->set_prompt("a red fox in fresh snow");
  return request;
}

class Bench {
 public:
  explicit Bench(const std::string& path) {
    auto opened = SqliteJobStore::Open(path, {}, Clock::Real(), [](const v1::VideoEvent&) {});
    OrDie(opened.status());
    store_ = *std::move(opened);
  }

  // Adds `jobs` jobs that are created and cancelled concurrently.
  void Fill(int64_t jobs) {
    for (int64_t i = 0; i < jobs; ++i) {
      {
        absl::MutexLock lock(&mu_);
        const auto room = [this] {
          mu_.AssertHeld();
          return open_ < 4000;
        };
        mu_.Await(absl::Condition(&room));
        ++open_;
      }
      store_->Create(Request(), Request().generation(), 1, [this](absl::StatusOr<Created> created) {
        OrDie(created.status());
        store_->Cancel(created->video.id(), [this](const absl::StatusOr<v1::Video>& video) {
          OrDie(video.status());
          absl::MutexLock lock(&mu_);
          --open_;
        });
      });
    }
    store_->Flush();
    store_->Flush();  // waits for the cancels
  }

  // Measures each operation separately and prints medians.
  void Measure(int64_t jobs) {
    std::vector<double> create, claim, finish, get, list, queued;
    for (int i = 0; i < kRepetitions; ++i) {
      Created created;
      create.push_back(Time([&](auto done) {
        store_->Create(Request(), Request().generation(), 1, [&, done](absl::StatusOr<Created> made) {
          OrDie(made.status());
          created = *std::move(made);
          done();
        });
      }));
      const std::string id = created.video.id();
      Attempt attempt;
      claim.push_back(Time([&](auto done) {
        store_->Claim(id, "bench", kLease, [&, done](const absl::StatusOr<Claimed>& claimed) {
          OrDie(claimed.status());
          attempt = claimed->attempt;
          done();
        });
      }));
      finish.push_back(Time([&](auto done) {
        store_->Finish(attempt, {}, [done](const absl::Status& status) {
          OrDie(status);
          done();
        });
      }));
      get.push_back(Time([&](auto done) { store_->Get(id, [done](const absl::StatusOr<v1::Video>&) { done(); }); }));
      list.push_back(TimeList({}));
      queued.push_back(TimeList({v1::Video::QUEUED}));
    }
    std::printf("%8lld stored:", static_cast<long long>(jobs));
    for (const auto& [what, times] : {std::pair{"create", &create},
                                      {"claim", &claim},
                                      {"finish", &finish},
                                      {"get", &get},
                                      {"list 50", &list},
                                      {"list QUEUED", &queued}}) {
      std::nth_element(times->begin(), times->begin() + kRepetitions / 2, times->end());
      std::printf("  %s %.2f", what, 1e3 * (*times)[kRepetitions / 2]);
    }
    std::printf("  ms\n");
    std::fflush(stdout);
  }

 private:
  static double Time(const std::function<void(std::function<void()>)>& call) {
    absl::Notification done;
    const absl::Time begin = absl::Now();
    call([&done] { done.Notify(); });
    done.WaitForNotification();
    return absl::ToDoubleSeconds(absl::Now() - begin);
  }
  double TimeList(std::vector<v1::Video::State> states) {
    const ListOptions options{.page_size = 50, .page_token = "", .states = std::move(states)};
    return Time([&](auto done) { store_->List(options, [done](const absl::StatusOr<JobPage>&) { done(); }); });
  }

  std::unique_ptr<SqliteJobStore> store_;
  absl::Mutex mu_;
  int open_ ABSL_GUARDED_BY(mu_) = 0;
};

QueuedJob Waiting(int64_t number) {
  return {.id = absl::StrCat("job", number), .model = "m", .create_time = absl::FromUnixMicros(number)};
}

// Measures a push and a pop of the first job, with `jobs` jobs waiting.
void MeasureQueue(int64_t jobs) {
  JobQueue queue(static_cast<int>(jobs) + 10);
  for (int64_t i = 0; i < jobs; ++i) queue.Requeue(Waiting(i));
  constexpr int kMany = 100'000;
  const absl::Time begin = absl::Now();
  for (int i = 0; i < kMany; ++i) {
    queue.Requeue(Waiting(jobs + i));
    queue.Pop([](const QueuedJob&) { return true; });
  }
  const double each = absl::ToDoubleSeconds(absl::Now() - begin) / kMany;
  const absl::Time before = absl::Now();
  queue.Position(absl::StrCat("job", jobs + kMany - 1));
  std::printf("%8lld waiting: push and pop %.2f us, position of the last %.2f us\n", static_cast<long long>(jobs),
              1e6 * each, absl::ToDoubleMicroseconds(absl::Now() - before));
}

int Main(const std::vector<std::string>& arguments) {
  std::vector<int64_t> sizes;
  for (const std::string& argument : arguments) {
    if (!absl::SimpleAtoi(argument, &sizes.emplace_back()) || sizes.back() <= 0) return 2;
  }
  if (sizes.empty()) sizes = {10'000, 100'000};
  std::sort(sizes.begin(), sizes.end());
  for (const int64_t jobs : sizes) MeasureQueue(jobs);
  const TemporaryDirectory directory;
  Bench bench(directory.File("jobs.db"));
  int64_t stored = 0;
  for (const int64_t jobs : sizes) {
    const absl::Time begin = absl::Now();
    bench.Fill(jobs - stored);
    std::printf("filled with %lld in %.0f s\n", static_cast<long long>(jobs - stored),
                absl::ToDoubleSeconds(absl::Now() - begin));
    stored = jobs;
    bench.Measure(jobs);
  }
  return 0;
}

}  // namespace
}  // namespace kinora

int main(int argc, char** argv) { return kinora::Main({argv + 1, argv + argc}); }
