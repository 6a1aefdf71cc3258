// Checks and deletes the files of resume points, on a thread of its own. The dispatcher decides which.
#ifndef KINORA_SERVER_FRONTEND_GROUPS_RESUME_FILES_H_
#define KINORA_SERVER_FRONTEND_GROUPS_RESUME_FILES_H_

#include <string>

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
  ResumeFiles(ArtifactStore& store, Clock& steady) : store_(store), loop_(steady) {}  // neither is owned

  // Both: any thread; never block. In the order of the calls.
  // OK if the file is there and has the size that the mark says; otherwise the error of the store, or DataLoss.
  void Check(const v1::ResumeMark& mark, Finished done);  // `done` runs on the thread of the files
  void Delete(const v1::ResumeMark& mark);                // logs an error

 private:
  ArtifactStore& store_;
  EventLoop loop_;  // last: its thread ends before other members are destroyed
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_RESUME_FILES_H_
