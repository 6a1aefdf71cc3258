// For tests of what does not depend on the model: a frontend whose worker's model is scripted, so that it can die, hang
// and wait at a step (tests/testing/scripted_worker.cc). The real one is in tiny_model_test.cc.
#ifndef KINORA_TESTS_E2E_SCRIPTED_SERVER_H_
#define KINORA_TESTS_E2E_SCRIPTED_SERVER_H_

#include <gtest/gtest.h>

#include "tests/e2e/gate.h"
#include "tests/e2e/server.h"

namespace kinora {

inline constexpr int kRefused = 2, kFailed = 3, kCancelled = 4, kUnreachable = 5;  // as `kinora --help` says

inline WorkerSetup Scripted() {
  return {.binary = KINORA_SCRIPTED_WORKER_BINARY, .flags = {"--worker-model=scripted"}};
}

class ScriptedServer : public testing::Test {
 protected:
  TemporaryDirectory directory_;
  Gate gate_{directory_};
  Server server_{directory_, Scripted()};  // not started
};

}  // namespace kinora

#endif  // KINORA_TESTS_E2E_SCRIPTED_SERVER_H_
