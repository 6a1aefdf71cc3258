// kinora-frontend with its jobs in a PostgreSQL database: the binary, kill -9 of either, a database in use.
#include <gmock/gmock.h>

#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/frontend/postgres/postgres_schema.h"
#include "tests/server/frontend/frontend_process.h"
#include "tests/testing/postgres_server.h"

namespace kinora {
namespace {

using testing::HasSubstr;

class DatabaseProcess : public FrontendProcess {
 protected:
  void SetUp() override {
    if (!PostgresServer::IsInstalled()) GTEST_SKIP() << "PostgreSQL is not installed";
    url_ = PostgresServer::Shared().NewDatabase();
  }
  // lease: also the time for which it waits for a database that a killed frontend has not left yet.
  void ServeFromDatabase(const std::string& lease = "5") { Serve({"--store", url_, "--lease-seconds=" + lease}); }
  void AwaitState(const std::string& id, v1::Video::State state) {
    const absl::Time end = absl::Now() + absl::Seconds(30);
    while (Get(id).state() != state && absl::Now() < end) std::this_thread::yield();
    EXPECT_EQ(Get(id).state(), state) << id;
  }
  // Waits until the job has ended.
  v1::Video AwaitEnd(const std::string& id) {
    v1::WatchVideoRequest request;
    request.set_id(id);
    grpc::ClientContext context;
    const auto watch = stub_->WatchVideo(&context, request);
    v1::VideoEvent event;
    while (watch->Read(&event)) {
      if (event.has_terminal()) return event.terminal();
    }
    ADD_FAILURE() << watch->Finish().error_message();
    return {};
  }

  std::string url_;
};

TEST_F(DatabaseProcess, KillNineLosesNoAcceptedJobAndTheNextProcessRunsThem) {
  ServeFromDatabase();
  auto worker = Join("one");
  std::vector<std::string> ids(10);
  for (std::string& id : ids) id = Create();
  EXPECT_EQ(worker->AwaitRun().video_id(), ids[0]);
  EXPECT_EQ(End(SIGKILL), -SIGKILL);
  worker.reset();

  ServeFromDatabase();
  for (const std::string& id : ids) AwaitState(id, v1::Video::QUEUED);
  worker = Join("two");
  for (size_t i = 0; i < ids.size(); ++i) {
    const v1::Run run = worker->AwaitRun();
    EXPECT_EQ(run.video_id(), ids[i]);
    EXPECT_EQ(run.attempt(), i == 0 ? 2 : 1);
    worker->Complete(run, "bytes");
    EXPECT_EQ(AwaitEnd(ids[i]).state(), v1::Video::COMPLETED);
  }
  EXPECT_EQ(End(SIGTERM), 0);
  EXPECT_FALSE(std::filesystem::exists(directory_.File("state/jobs.db")));
  EXPECT_EQ(PostgresServer::Query(url_, "SELECT count(*) FROM kinora.jobs WHERE state = 4").Int(0, 0), 10);
}

TEST_F(DatabaseProcess, AStoreIsCopiedIntoADatabaseAndServedFromThere) {
  Serve();
  auto worker = Join("one");
  const std::string done = Create(), waits = Create();
  worker->Complete(worker->AwaitRun(), "bytes");
  const v1::Video completed = AwaitEnd(done);
  worker.reset();
  EXPECT_EQ(End(SIGTERM), 0);
  const std::vector<std::string> copy = {"--state-directory", directory_.File("state"), "--store", url_,
                                         "--copy-store=sqlite"};
  EXPECT_EQ(Run(copy), 0) << LogText();
  EXPECT_EQ(Run(copy), 1);
  EXPECT_THAT(LogText(), HasSubstr("the database has jobs"));

  ServeFromDatabase();
  EXPECT_EQ(Get(done).SerializeAsString(), completed.SerializeAsString());
  worker = Join("two");
  const v1::Run run = worker->AwaitRun();
  EXPECT_EQ(run.video_id(), waits);
  worker->Complete(run, "bytes");
  EXPECT_EQ(AwaitEnd(waits).state(), v1::Video::COMPLETED);
}

// Its lease is over long before.
TEST_F(DatabaseProcess, ARunOutlivesItsDatabasesRestart) {
  PostgresServer server;
  url_ = server.NewDatabase();
  ServeFromDatabase("0.5");
  const auto worker = Join("one");
  const std::string id = Create();
  const v1::Run run = worker->AwaitRun();
  server.Kill();
  worker->SendStage(run, "denoise", 10);
  server.Start();
  worker->Complete(run, "bytes");
  const v1::Video video = AwaitEnd(id);
  EXPECT_EQ(video.state(), v1::Video::COMPLETED);
  EXPECT_EQ(video.attempt(), 1);
}

TEST_F(DatabaseProcess, TheDatabaseIsOneFrontends) {
  ServeFromDatabase();
  const auto worker = Join("one");
  const pid_t first = std::exchange(pid_, -1);
  EXPECT_EQ(Run({"--state-directory", directory_.File("second"), "--address",
                 absl::StrCat("unix:", directory_.File("second.sock")), "--http-address", "", "--store", url_,
                 "--lease-seconds=0.5"}),
            1);
  EXPECT_THAT(LogText(), HasSubstr("store: another frontend uses the database"));
  pid_ = first;
  EXPECT_FALSE(Create().empty());
}

TEST_F(DatabaseProcess, AFrontendWhoseDatabaseWasTakenAcceptsNoMoreJobs) {
  ServeFromDatabase();
  const auto worker = Join("one");
  std::unique_ptr<SqlConnection> other;
  ASSERT_FALSE(PostgresServer::Driver().Connect(url_, other));
  SqlRows rows;
  ASSERT_FALSE(other->RunScript(
      absl::StrCat("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objid = ",
                   kPostgresFrontendLock, "; SELECT pg_advisory_lock(", kPostgresFrontendLock, ")"),
      std::chrono::seconds(30), rows));
  grpc::Status status;
  const absl::Time end = absl::Now() + absl::Seconds(30);
  do {
    v1::Video video;
    grpc::ClientContext context;
    v1::CreateVideoRequest request;
    request.mutable_generation()->set_prompt("one more");
    status = stub_->CreateVideo(&context, request, &video);
  } while (status.error_code() != grpc::StatusCode::UNAVAILABLE && absl::Now() < end);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("another frontend has taken"));
  while (!absl::StrContains(LogText(), "database_taken") && absl::Now() < end) std::this_thread::yield();
  EXPECT_THAT(LogText(), HasSubstr("database_taken"));
}

TEST_F(DatabaseProcess, AStoreThatCannotBeOpenedIsExplained) {
  const auto run = [&](const std::string& store, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"--state-directory", directory_.File("state"), "--store", store};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(arguments);
  };
  EXPECT_EQ(run("postgresql://kinora:secret@127.0.0.1/jobs?colour=red", {"--check-config"}), 2);
  EXPECT_THAT(LogText(), HasSubstr("store: invalid URI query parameter: \"colour\""));
  EXPECT_EQ(run("mysql://kinora:secret@host/jobs", {"--check-config"}), 2);
  EXPECT_THAT(LogText(), HasSubstr("store: \"mysql…\" is not one of sqlite, memory, postgresql://USER@HOST/DATABASE"));
  EXPECT_EQ(run("sqlite", {"--job-store=memory", "--check-config"}), 2);
  EXPECT_THAT(LogText(), HasSubstr("job_store: is the old name of store"));
  EXPECT_EQ(run("memory", {"--copy-store="}), 2);
  EXPECT_THAT(LogText(), HasSubstr("--copy-store: must be sqlite or"));
  mkdir(directory_.File("state").c_str(), 0700);
  WriteFile(directory_.File("state/jobs.db.copy"), "");
  EXPECT_EQ(run("sqlite"), 1);
  EXPECT_THAT(LogText(), HasSubstr("a copy into jobs.db has not ended"));
  EXPECT_EQ(run(absl::StrCat(url_, "0")), 1);
  EXPECT_THAT(LogText(), HasSubstr("store: the database: "));
  EXPECT_THAT(LogText(), testing::Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace kinora
