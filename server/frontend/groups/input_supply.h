// Reads pieces of uploaded inputs for workers that share no directory with this frontend.
#ifndef KINORA_SERVER_FRONTEND_GROUPS_INPUT_SUPPLY_H_
#define KINORA_SERVER_FRONTEND_GROUPS_INPUT_SUPPLY_H_

#include <functional>
#include <string>

#include "engine/base/clock.h"
#include "kinora/v1/worker.pb.h"
#include "server/common/artifact_store.h"
#include "server/net/event_lanes.h"

namespace kinora {

class InputSupply {
 public:
  // Neither is owned.
  InputSupply(ArtifactStore& store, Clock& steady) : store_(store), lanes_(steady, store.lanes()) {}
  ~InputSupply() { lanes_.Stop(); }

  // Passes `done` the requested piece of the file `key` or an error. The dispatcher decides whether the request is
  // allowed. Any thread; never blocks; `done` runs on a thread of the supply.
  void Give(v1::InputFetch fetch, std::string key, std::function<void(v1::InputPiece)> done);

 private:
  ArtifactStore& store_;
  EventLanes lanes_;
};

// Returns the answer to `fetch`, without data or error.
v1::InputPiece AnswerTo(const v1::InputFetch& fetch);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_INPUT_SUPPLY_H_
