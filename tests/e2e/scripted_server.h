// A frontend with a scripted model, for tests that do not depend on the model: it can die, hang and wait at a step
// (tests/testing/scripted_worker.cc). tiny_model_test.cc uses a real model.
#ifndef KINORA_TESTS_E2E_SCRIPTED_SERVER_H_
#define KINORA_TESTS_E2E_SCRIPTED_SERVER_H_

#include <gtest/gtest.h>

#include "tests/e2e/gate.h"
#include "tests/e2e/server.h"

namespace kinora {

inline constexpr int kRefused = 2, kFailed = 3, kCancelled = 4, kUnreachable = 5;  // as in `kinora --help`

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
