#include "server/frontend/worker_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cerrno>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "server/config/config.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::HasSubstr;

class WorkerCheckTest : public testing::Test {
 protected:
  // A frontend configuration with this script as the worker program.
  v1::FrontendConfig WithWorker(const std::string& script) {
    const std::string path = directory_.File("worker");
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    EXPECT_EQ(chmod(path.c_str(), 0700), 0);
    v1::FrontendConfig config = DefaultFrontendConfig();
    config.set_state_directory(directory_.path());
    config.set_worker_binary(path);
    config.mutable_worker()->add_model("m");
    return config;
  }
  std::string Fifo() const {
    const std::string path = directory_.File("fifo");
    EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
    return path;
  }
  TemporaryDirectory directory_;
};

TEST_F(WorkerCheckTest, SaysWhatTheWorkerSays) {
  EXPECT_THAT(CheckWorkers(WithWorker("exit 0")), IsOk());
  EXPECT_THAT(CheckWorkers(WithWorker("echo kinora-worker: no such file >&2; exit 2")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("worker: no such file")));
  EXPECT_THAT(CheckWorkers(WithWorker("exit 3")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("printed nothing")));
}

// If a file server does not respond, a worker blocks until it does.
TEST_F(WorkerCheckTest, DoesNotWaitForOneThatHangs) {
  const std::string fifo = Fifo();
  for (const std::string& before : {std::string(), std::string("exec 2>&-; "), std::string("echo looking >&2; ")}) {
    EXPECT_THAT(CheckWorkers(WithWorker(absl::StrCat(before, "read x < ", fifo)), absl::Milliseconds(200)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("did not finish within 200ms")));
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);  // no child is left behind
    EXPECT_EQ(errno, ECHILD);
  }
}

TEST_F(WorkerCheckTest, DoesNotListenForEverToOneThatNeverStopsTalking) {
  EXPECT_THAT(CheckWorkers(WithWorker("exec yes >&2")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("wrote more than 16 MiB")));
}

TEST_F(WorkerCheckTest, OneWhoseEndIsNotToldIsNotSaidToRun) {
  const auto before = signal(SIGCHLD, SIG_IGN);  // as this process's parent may have left it
  EXPECT_THAT(CheckWorkers(WithWorker("exit 0")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("waiting for its end: No child processes")));
  signal(SIGCHLD, before);
}

// The child keeps the worker's standard error open.
TEST_F(WorkerCheckTest, DoesNotWaitForAChildOfOneThatHasEnded) {
  const std::string fifo = Fifo();
  EXPECT_THAT(CheckWorkers(WithWorker(absl::StrCat("(read x < ", fifo, ") & echo wrong >&2; exit 2"))),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("worker: wrong")));
  std::ofstream(fifo) << "on\n";  // ends the child
}

}  // namespace
}  // namespace kinora
