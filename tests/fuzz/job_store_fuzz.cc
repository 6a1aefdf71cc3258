// The job store's recovery. A database with jobs in every state is damaged as the input describes, then opened as by a
// frontend. Opening must return an error or a store whose calls all answer. The database is made here with the store's
// own tables, so that a seed is only a list of damages:
//   'o' offset[3] count[1] bytes   overwrite      't' size[3]    truncate       'f' offset[3] count[2] value   fill
//   'w' offset[3] count[1] bytes   overwrite the log (jobs.db-wal), which holds the last changes
//   'c' job[1] column[1] count[1] bytes   a cell of an otherwise valid database      'r' the rest is the whole file
//   'v' version[1]   continue with a file that this schema version wrote (tests/server/frontend/data)
// If a file of an older version opens, the store must leave a complete copy of the original.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/logging.h"
#include "server/frontend/jobs/catalogue_tables.h"
#include "server/frontend/jobs/job_record.h"
#include "server/frontend/jobs/job_schema.h"
#include "server/frontend/jobs/sqlite.h"
#include "server/frontend/jobs/sqlite_catalogue_store.h"
#include "server/frontend/jobs/sqlite_job_store.h"
#include "server/frontend/jobs/sqlite_job_tables.h"
#include "tests/testing/fake_clock.h"

namespace kinora {
namespace {

constexpr absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);
constexpr char kOwner[] = "embedded";
constexpr int kJobs = 8;

std::string Folder() {  // in memory: nothing needs to persist
  std::error_code error;
  const bool shared = std::filesystem::is_directory("/dev/shm", error);
  std::string name = (shared ? "/dev/shm" : std::filesystem::temp_directory_path().string()) + "/job-store-fuzz-XXXXXX";
  KINORA_CHECK(mkdtemp(name.data()) != nullptr) << name;
  return name;
}

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}
void Write(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc).write(bytes.data(), static_cast<int64_t>(bytes.size()));
}

// Job i has made i transitions: QUEUED, RUNNING, FINALIZING, then the final states.
JobRecord MakeJob(int i, std::vector<v1::VideoEvent>& events) {
  const JobRules rules;
  v1::CreateVideoRequest request;
  request.set_request_id("request " + std::to_string(i));
  request.mutable_generation()->set_prompt("a red fox " + std::to_string(i));
  request.set_detach(i % 2 == 0);
  request.mutable_scheduling()->set_priority(i % 3);
  JobRecord record = NewJob("job" + std::to_string(i), request, request.generation(), /*estimated_seconds=*/0, kNow,
                            &events.emplace_back());
  const auto must = [](const absl::Status& status) { KINORA_CHECK(status.ok()) << status.ToString(); };
  if (i == 6) must(Cancel(rules, kNow, record, &events.emplace_back()));
  if (i == 0 || i == 6) return record;
  must(Claim(kOwner, absl::Seconds(30), kNow, record, &events.emplace_back()));
  v1::VideoEvent stage;
  stage.mutable_stage()->set_stage("denoise");
  if (i > 1) must(Append(CurrentAttempt(record), stage, kNow, record, &events.emplace_back()));
  v1::VideoEvent finalizing;
  finalizing.mutable_state()->set_state(v1::Video::FINALIZING);
  if (i > 2) must(Append(CurrentAttempt(record), finalizing, kNow, record, &events.emplace_back()));
  Outcome outcome;
  outcome.state = i == 5 ? v1::Video::FAILED : v1::Video::COMPLETED;
  outcome.error.set_code(i == 5 ? 8 : 0);
  outcome.artifacts.resize(i == 4 ? 1 : 0);
  if (i > 3) must(Finish(CurrentAttempt(record), outcome, rules, kNow, record, &events.emplace_back()));
  return record;
}

struct Base {
  Base();
  ~Base() { std::filesystem::remove_all(folder); }

  const std::string folder = Folder(), path = folder + "/jobs.db";
  std::string whole;                  // a closed database
  std::string file, log;              // a killed process's database: the jobs are in the log
  std::vector<std::string> versions;  // closed databases of schema 1, 2, …
};

Base::Base() {
  SetLogOptions({.minimum = static_cast<Severity>(static_cast<int>(Severity::kError) + 1)});  // logs nothing
  {
    auto tables = SqliteJobTables::Open(path).value();
    for (int i = 0; i < kJobs; ++i) {
      std::vector<v1::VideoEvent> events;
      const JobRecord record = MakeJob(i, events);
      KINORA_CHECK(tables->Insert(record, "fingerprint", events.front(), /*tied_to=*/"").ok());
      for (size_t event = 1; event < events.size(); ++event) {
        KINORA_CHECK(
            tables->AddEvent(record.video.id(), events[event].sequence(), events[event].SerializeAsString()).ok());
      }
    }
    v1::ModelInfo model;
    model.set_id("m");
    KINORA_CHECK(CatalogueTables(tables->database()).PutModel(model).ok());
    KINORA_CHECK(tables->Hide("job5").ok());
    file = Contents(path);
    log = Contents(path + "-wal");
  }
  whole = Contents(path);
  for (int64_t version = 1; version <= kSchemaVersion; ++version) {
    versions.push_back(Contents(absl::StrCat(KINORA_SOURCE_DIR "/tests/server/frontend/data/jobs.v", version, ".db")));
    KINORA_CHECK(!versions.back().empty()) << "no file of schema " << version;
  }
}

std::string CopyPath(const Base& base, int64_t version) { return absl::StrCat(base.path, ".v", version); }

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  uint64_t Number(int bytes) {
    uint64_t number = 0;
    for (char c : Take(bytes)) number = number << 8 | static_cast<uint8_t>(c);
    return number;
  }
  std::string_view Take(size_t count) {
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(taken.size());
    return taken;
  }

 private:
  std::string_view bytes_;
};

void SetCell(const std::string& path, uint64_t job, uint64_t column, std::string_view bytes) {
  static constexpr const char* kUpdates[] = {"UPDATE jobs SET video = ? WHERE ordinal = ?",
                                             "UPDATE jobs SET scheduling = ? WHERE ordinal = ?",
                                             "UPDATE jobs SET owner = ? WHERE ordinal = ?",
                                             "UPDATE jobs SET lease_micros = ? WHERE ordinal = ?",
                                             "UPDATE jobs SET queued_micros = ? WHERE ordinal = ?",
                                             "UPDATE jobs SET state = ? WHERE ordinal = ?",
                                             "UPDATE jobs SET last_sequence = ? WHERE ordinal = ?",
                                             "UPDATE jobs SET expire_micros = ? WHERE ordinal = ?",
                                             "UPDATE jobs SET id = ? WHERE ordinal = ?",
                                             "UPDATE events SET event = ? WHERE job = 'job' || (? - 1)",
                                             "UPDATE models SET info = ? WHERE ? > 0"};
  auto database = Database::Open(path);
  if (!database.ok()) return;
  auto update = (*database)->Prepare(kUpdates[column % std::size(kUpdates)]);
  if (!update.ok()) return;
  if (column % 2 == 0 && bytes.size() == 8) {  // for a number column
    int64_t number = 0;
    for (char c : bytes) number = number << 8 | static_cast<uint8_t>(c);
    (void)update->Bind(number).Bind(static_cast<int64_t>(job % kJobs + 1)).Run();
    return;
  }
  (void)update->BindBlob(bytes).Bind(static_cast<int64_t>(job % kJobs + 1)).Run();
}

void Overwrite(std::string& file, Reader& in) {
  const size_t offset = in.Number(3), count = in.Number(1);
  const std::string_view bytes = in.Take(count);
  if (!file.empty()) file.replace(offset % file.size(), bytes.size(), bytes);
}

// Writes the damaged files to base.path.
void Damage(const Base& base, std::string_view input) {
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(base.path + suffix);
  for (int64_t version = 1; version <= kSchemaVersion; ++version) std::filesystem::remove(CopyPath(base, version));
  Reader in(input);
  bool with_log = input.find('w') != std::string_view::npos;
  std::string file = with_log ? base.file : base.whole, log = base.log;
  std::vector<std::array<std::string, 3>> cells;
  while (!in.empty()) {
    switch (in.Number(1)) {
      case 'o':
        Overwrite(file, in);
        break;
      case 'w':
        Overwrite(log, in);
        break;
      case 't':
        file.resize(std::min<size_t>(file.size(), in.Number(3)));
        break;
      case 'f': {
        const size_t offset = file.empty() ? 0 : in.Number(3) % file.size(), count = in.Number(2);
        file.replace(offset, count, std::min(count, file.size() - offset), static_cast<char>(in.Number(1)));
        break;
      }
      case 'c': {
        const std::string job(1, static_cast<char>(in.Number(1))), column(1, static_cast<char>(in.Number(1)));
        cells.push_back({job, column, std::string(in.Take(in.Number(1)))});
        break;
      }
      case 'v':
        file = base.versions[in.Number(1) % base.versions.size()];
        with_log = false;
        break;
      case 'r':
        file = std::string(in.Take(1 << 20));
        with_log = false;
        break;
      default:
        break;
    }
  }
  Write(base.path, file);
  if (with_log) Write(base.path + "-wal", log);
  for (const auto& [job, column, bytes] : cells) {
    SetCell(base.path, static_cast<uint8_t>(job[0]), static_cast<uint8_t>(column[0]), bytes);
  }
}

// Returns the schema version in the file's header, or 0 if the database has a log or is not this program's.
int64_t VersionOf(const Base& base) {
  const std::string file = Contents(base.path);
  Reader header(std::string_view(file).substr(0, 72));
  if (std::filesystem::exists(base.path + "-wal") || file.size() < 72) return 0;
  header.Take(60);
  const auto version = static_cast<int64_t>(header.Number(4));
  header.Take(4);
  return header.Number(4) == 0x4b494e4f ? version : 0;  // "KINO"
}

// Checks the copy left by a store that opened a file of schema `version`.
void CheckCopy(const Base& base, int64_t version) {
  if (version < 1 || version >= kSchemaVersion) return;
  auto copy = Database::Open(CopyPath(base, version));
  KINORA_CHECK(copy.ok() && std::filesystem::file_size(CopyPath(base, version)) > 0) << "no copy of schema " << version;
  auto kept = (*copy)->Prepare("PRAGMA user_version");
  KINORA_CHECK(kept.ok() && kept->Row().ok() && kept->Int(0) == version);
  auto check = (*copy)->Prepare("PRAGMA quick_check(1)");
  KINORA_CHECK(check.ok() && check->Row().ok() && check->Bytes(0) == "ok") << check->Bytes(0);
}

// Makes the calls of a frontend after it opens the store, and those of its clients.
void Use(SqliteJobStore& store) {
  std::atomic<int> answers = 0;  // readers and the writer answer on their own threads
  int asked = 0;
  const auto counted = [&](auto) { ++answers; };
  std::vector<UnfinishedJob> unfinished;
  store.Unfinished([&](absl::StatusOr<std::vector<UnfinishedJob>> jobs) {
    ++answers;
    if (jobs.ok()) unfinished = *std::move(jobs);
  });
  store.Flush();
  KINORA_CHECK(answers == 1);
  answers = 0;
  for (const UnfinishedJob& job : unfinished) {
    if (job.attempt.number > 0) store.Requeue(job.attempt, {.why = "restarted"}, counted), ++asked;
  }
  std::vector<JobId> ids = {"job0", "job1", "job2", "job3", "job4", "job5", "job6", "job7", "nobody"};
  for (const UnfinishedJob& job : unfinished) ids.push_back(job.video.id());
  for (const JobId& id : ids) {
    store.Get(id, counted);
    store.EventsAfter(id, 1, counted);
    store.Claim(id, kOwner, absl::Seconds(30), counted);
    store.Renew({id, 1, kOwner}, absl::Seconds(30), counted);
    store.Finish({id, 1, kOwner}, {}, counted);
    store.Cancel(id, counted);
    store.CancelAndDelete(id, counted);
    store.Delete(id, counted);
    asked += 8;
    store.Flush();
  }
  v1::CreateVideoRequest request;
  request.set_request_id("request 1");
  store.Create(request, {}, 0, counted);
  store.SweepExpired(kNow + absl::Hours(24 * 40), counted);
  store.Purge("job6", counted);
  store.Flush();
  store.List({.page_size = 2, .page_token = {}, .states = {}}, counted);
  store.Flush();
  SqliteCatalogueStore(store.file()).Models(counted);
  store.Flush();
  KINORA_CHECK(answers == asked + 5) << answers << " of " << asked + 5;
}

}  // namespace
}  // namespace kinora

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kinora;  // NOLINT: one function
  static const Base base;
  Damage(base, std::string_view(reinterpret_cast<const char*>(data), size));
  const int64_t version = VersionOf(base);
  FakeClock clock(kNow);
  for (int i = 0; i < 2; ++i) {  // the second time on the result of the first
    auto store = SqliteJobStore::Open(base.path, {}, clock, [](const v1::VideoEvent&) {});
    if (!store.ok()) return 0;
    CheckCopy(base, version);
    Use(**store);
  }
  return 0;
}
