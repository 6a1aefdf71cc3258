// Pieces of uploaded inputs, for workers that share no directory with this frontend.
#ifndef KINORA_SERVER_FRONTEND_GROUPS_INPUT_SUPPLY_H_
#define KINORA_SERVER_FRONTEND_GROUPS_INPUT_SUPPLY_H_

#include <functional>
#include <string>

#include "engine/base/clock.h"
#include "kinora/v1/worker.pb.h"
#include "server/common/artifact_store.h"
#include "server/common/event_loop.h"

namespace kinora {

class InputSupply {
 public:
  InputSupply(ArtifactStore& store, Clock& steady) : store_(store), loop_(steady) {}  // neither is owned

  // The piece that is asked for, or why there is none. Whether it may be asked for is the dispatcher's to know. Any
  // thread; never blocks; `done` runs on a thread of its own.
  void Give(v1::InputFetch fetch, std::function<void(v1::InputPiece)> done);

 private:
  ArtifactStore& store_;
  EventLoop loop_;  // last: its thread ends before anything else goes
};

// The answer to `fetch`, without what it carries.
v1::InputPiece AnswerTo(const v1::InputFetch& fetch);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_INPUT_SUPPLY_H_
