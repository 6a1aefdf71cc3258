// Every store, also the simulation's, answers random operations as an executable model does (store_model.h), and a
// store in a file also after it was closed and opened again. To try other seeds than those below, or to repeat a
// failure:
//
//   KINORA_STORE_SEEDS=FIRST+COUNT frontend_jobs_test --gtest_filter='Kinds/RandomOperationsTest.*'
//   KINORA_STORE_REPLAY=SEED:OPERATION,OPERATION,... (as a failure prints it)
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/base/check.h"
#include "server/frontend/inputs/sqlite_input_records.h"
#include "server/frontend/jobs/random_id.h"
#include "server/frontend/jobs/sqlite_catalogue_store.h"
#include "server/frontend/jobs/sqlite_frontend_records.h"
#include "server/frontend/jobs/sqlite_job_store.h"
#include "server/frontend/postgres/postgres_stores.h"
#include "server/net/event_loop.h"
#include "tests/server/frontend/jobs/memory_job_store.h"
#include "tests/server/frontend/jobs/memory_stores.h"
#include "tests/server/frontend/jobs/store_operations.h"
#include "tests/testing/postgres_server.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

constexpr int kOperations = 200;       // per seed
constexpr uint64_t kLostGroups = 220;  // jobs lose as many groups as they may; few seeds reach that

class SqliteStores : public OpenStores {
 public:
  SqliteStores(bool in_file, Clock& clock) : in_file_(in_file), clock_(clock) { Open(); }

  JobStore& jobs() override { return *jobs_; }
  CatalogueStore& catalogue() override { return *catalogue_; }
  InputRecords& inputs() override { return *inputs_; }
  FrontendRecords& frontends() override { return *frontends_; }
  const std::vector<v1::VideoEvent>& heard() override { return heard_; }
  void Reopen() override {
    if (!in_file_) return;
    jobs_.reset();
    Open();
  }

 private:
  void Open() {
    auto opened = SqliteJobStore::Open(in_file_ ? directory_.File("jobs.db") : ":memory:", kRules, clock_,
                                       [this](const v1::VideoEvent& event) { heard_.push_back(event); });
    KINORA_CHECK(opened.ok()) << opened.status();
    jobs_ = *std::move(opened);
    catalogue_ = std::make_unique<SqliteCatalogueStore>(jobs_->file());
    inputs_ = std::make_unique<SqliteInputRecords>(jobs_->file());
    frontends_ = std::make_unique<SqliteFrontendRecords>(jobs_->file(), clock_);
  }

  const bool in_file_;
  Clock& clock_;
  TemporaryDirectory directory_;
  std::vector<v1::VideoEvent> heard_;  // on the store's writer thread; read after a call has returned
  std::unique_ptr<SqliteJobStore> jobs_;
  std::unique_ptr<SqliteCatalogueStore> catalogue_;
  std::unique_ptr<SqliteInputRecords> inputs_;
  std::unique_ptr<SqliteFrontendRecords> frontends_;
};

class MemoryStores : public OpenStores {
 public:
  explicit MemoryStores(Clock& clock)
      : loop_(clock),
        jobs_(
            kRules, clock, [this](const v1::VideoEvent& event) { heard_.push_back(event); }, loop_, &RandomId) {}
  ~MemoryStores() override { loop_.Stop(); }

  JobStore& jobs() override { return jobs_; }
  CatalogueStore& catalogue() override { return catalogue_; }
  InputRecords& inputs() override { return inputs_; }
  FrontendRecords& frontends() override { return jobs_; }
  const std::vector<v1::VideoEvent>& heard() override { return heard_; }
  void Reopen() override {}

 private:
  EventLoop loop_;
  std::vector<v1::VideoEvent> heard_;  // on the loop; read after a call has returned
  MemoryJobStore jobs_;
  MemoryCatalogueStore catalogue_{loop_};
  MemoryInputRecords inputs_{loop_};
};

class PostgresOpenStores : public OpenStores {
 public:
  explicit PostgresOpenStores(Clock& clock) : clock_(clock), url_(PostgresServer::Shared().NewDatabase()) {
    Open();
    PostgresServer::Execute(url_,
                            "SET search_path = kinora; CREATE TABLE false_clock (micros bigint);"
                            "INSERT INTO false_clock VALUES (0); "
                            "CREATE OR REPLACE FUNCTION kinora_now() RETURNS bigint LANGUAGE sql VOLATILE AS "
                            "'SELECT micros FROM kinora.false_clock'");
  }

  JobStore& jobs() override { return OnTime().jobs(); }
  CatalogueStore& catalogue() override { return OnTime().catalogue(); }
  InputRecords& inputs() override { return OnTime().inputs(); }
  FrontendRecords& frontends() override { return OnTime().frontends(); }
  const std::vector<v1::VideoEvent>& heard() override { return heard_; }
  void Reopen() override {
    stores_.reset();
    Open();
  }

 private:
  void Open() {
    auto opened = PostgresStores::Open({.driver = &PostgresServer::Driver(),
                                        .url = url_,
                                        .rules = kRules,
                                        .listener = [this](const v1::VideoEvent& event) { heard_.push_back(event); },
                                        .grace = absl::ZeroDuration()});
    KINORA_CHECK(opened.ok()) << opened.status();
    stores_ = *std::move(opened);
  }

  // Sets the database's clock.
  PostgresStores& OnTime() {
    if (const absl::Time now = clock_.Now(); std::exchange(told_, now) != now) {
      PostgresServer::Execute(url_, absl::StrCat("UPDATE kinora.false_clock SET micros = ", absl::ToUnixMicros(now)));
    }
    return *stores_;
  }

  Clock& clock_;
  const std::string url_;
  absl::Time told_ = absl::InfinitePast();
  std::vector<v1::VideoEvent> heard_;  // on the store's threads; read after a call has returned
  std::unique_ptr<PostgresStores> stores_;
};

enum class Kind { kMemory, kSqlite, kFile, kPostgres };  // kSqlite: in memory

std::string NameOf(Kind kind) {
  constexpr const char* kKinds[] = {"Memory", "Sqlite", "File", "Postgres"};
  return kKinds[static_cast<int>(kind)];
}

std::unique_ptr<OpenStores> Open(Kind kind, Clock& clock) {
  if (kind == Kind::kMemory) return std::make_unique<MemoryStores>(clock);
  if (kind == Kind::kPostgres) return std::make_unique<PostgresOpenStores>(clock);
  return std::make_unique<SqliteStores>(kind == Kind::kFile, clock);
}

using Selection = std::vector<int>;  // numbers of operations, ascending

struct Failure {
  size_t length = 0;  // of the selection, up to the operation that fails; 0: none fails
  std::string difference;
};

class RandomOperationsTest : public testing::TestWithParam<Kind> {
 protected:
  static Failure Run(const std::vector<StoreOperation>& operations, const Selection& selection) {
    FakeClock clock;
    const std::unique_ptr<OpenStores> stores = Open(GetParam(), clock);
    StoreComparison comparison(*stores, clock);
    for (size_t i = 0; i < selection.size(); ++i) {
      std::string difference = comparison.Apply(operations[selection[i]]);
      const bool last = i + 1 == selection.size();
      if (difference.empty() && last) difference = comparison.CompareAll();
      if (!difference.empty()) return {.length = i + 1, .difference = std::move(difference)};
    }
    return {};
  }

  // Leaves out operations, in ever smaller pieces, as long as one still fails.
  static void Shorten(const std::vector<StoreOperation>& operations, Selection& selection, Failure& failure) {
    selection.resize(failure.length);
    for (size_t piece = selection.size() / 2; piece > 0; piece /= 2) {
      for (size_t begin = 0; begin < selection.size();) {
        Selection rest(selection.begin(), selection.begin() + begin);
        rest.insert(rest.end(), selection.begin() + std::min(begin + piece, selection.size()), selection.end());
        Failure shorter = Run(operations, rest);
        if (shorter.length == 0) {
          begin += piece;
          continue;
        }
        selection = std::move(rest);
        selection.resize(shorter.length);
        failure = std::move(shorter);
      }
    }
  }

  // Fails the test, with the shortest sequence that fails, if an operation does.
  static void Try(uint64_t seed, const std::vector<StoreOperation>& operations, Selection selection) {
    Failure failure = Run(operations, selection);
    if (failure.length == 0) return;
    const int first = selection[failure.length - 1];
    Shorten(operations, selection, failure);
    std::string steps;
    for (const int number : selection) absl::StrAppend(&steps, "  ", number, " ", Describe(operations[number]), "\n");
    ADD_FAILURE() << "seed " << seed << ", operation " << first << "; the shortest sequence that fails:\n"
                  << steps << failure.difference << "repeat it:\n  KINORA_STORE_REPLAY=" << seed << ":"
                  << absl::StrJoin(selection, ",") << " build/release/tests/server/frontend/frontend_jobs_test"
                  << " --gtest_filter=Kinds/RandomOperationsTest.*/" << NameOf(GetParam());
  }
  static void TrySeed(uint64_t seed) {
    Selection all(kOperations);
    for (int i = 0; i < kOperations; ++i) all[i] = i;
    Try(seed, DrawOperations(seed, kOperations), all);
  }

  static void Replay(const std::string& text) {
    const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
    uint64_t seed = 0;
    ASSERT_TRUE(parts.size() == 2 && absl::SimpleAtoi(parts[0], &seed)) << "KINORA_STORE_REPLAY=" << text;
    Selection selection;
    for (const std::string& number : std::vector<std::string>(absl::StrSplit(parts[1], ','))) {
      ASSERT_TRUE(absl::SimpleAtoi(number, &selection.emplace_back()) && selection.back() >= 0 &&
                  selection.back() < kOperations)
          << "KINORA_STORE_REPLAY=" << text;
    }
    Try(seed, DrawOperations(seed, kOperations), selection);
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, RandomOperationsTest,
                         testing::Values(Kind::kMemory, Kind::kSqlite, Kind::kFile, Kind::kPostgres),
                         [](const auto& info) { return NameOf(info.param); });

TEST_P(RandomOperationsTest, EveryAnswerAndStateIsTheModels) {
  if (GetParam() == Kind::kPostgres && !PostgresServer::IsInstalled()) GTEST_SKIP() << "PostgreSQL is not installed";
  if (const char* replay = std::getenv("KINORA_STORE_REPLAY")) return Replay(replay);
  uint64_t first = 1, count = GetParam() == Kind::kFile || GetParam() == Kind::kPostgres ? 4 : 12;
  if (const char* seeds = std::getenv("KINORA_STORE_SEEDS")) {
    const std::vector<std::string> parts = absl::StrSplit(seeds, '+');
    ASSERT_TRUE(parts.size() == 2 && absl::SimpleAtoi(parts[0], &first) && absl::SimpleAtoi(parts[1], &count))
        << "KINORA_STORE_SEEDS=" << seeds << ", not FIRST+COUNT";
  }
  for (uint64_t seed = first; seed < first + count && !HasFailure(); ++seed) TrySeed(seed);
  TrySeed(kLostGroups);
}

}  // namespace
}  // namespace kinora
