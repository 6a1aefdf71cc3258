// Checks and deletes the files of resume points, on an executor of its own. The dispatcher decides which.
#ifndef KINORA_SERVER_FRONTEND_GROUPS_RESUME_FILES_H_
#define KINORA_SERVER_FRONTEND_GROUPS_RESUME_FILES_H_

#include <memory>
#include <string>
#include <utility>

#include "engine/base/clock.h"
#include "kinora/v1/worker.pb.h"
#include "server/common/artifact_store.h"
#include "server/frontend/jobs/store_call.h"
#include "server/net/event_loop.h"

namespace kinora {

// The key of its file: "<video id>/<attempt>/<point id>".
std::string ResumeKey(const v1::ResumeMark& mark);

class ResumeFiles {
 public:
  // Neither is owned. loop: null: an EventLoop.
  ResumeFiles(ArtifactStore& store, Clock& steady, std::unique_ptr<Executor> loop = nullptr)
      : store_(store), loop_(loop != nullptr ? std::move(loop) : std::make_unique<EventLoop>(steady)) {}

  // Both: any thread; never block. In the order of the calls.
  // OK if the file is there and has the size that the mark says; otherwise the error of the store, or DataLoss.
  void Check(const v1::ResumeMark& mark, Finished done);  // `done` runs on the executor
  void Delete(const v1::ResumeMark& mark);                // logs an error

 private:
  ArtifactStore& store_;
  const std::unique_ptr<Executor> loop_;  // last: its thread ends before other members are destroyed
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_RESUME_FILES_H_
