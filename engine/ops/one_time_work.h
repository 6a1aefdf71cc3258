// Work that a backend does once for each shape of an op and that takes long: CUDA builds plans of cuDNN. A dry run
// lists it, so that it is done before a run, on all of the host's threads, instead of in the run, one shape after
// another.
#ifndef KINORA_ENGINE_OPS_ONE_TIME_WORK_H_
#define KINORA_ENGINE_OPS_ONE_TIME_WORK_H_

#include <memory>

#include "engine/ops/dry_backend.h"

namespace kinora {

class OneTimeWork {  // a list, in a form that only its backend knows
 public:
  virtual ~OneTimeWork() = default;
};

// A dry backend that lists the work of the ops that are called.
class ListingBackend : public DryBackend {
 public:
  using DryBackend::DryBackend;
  virtual std::shared_ptr<const OneTimeWork> Take() = 0;
};

// Implemented by backends that have such work.
class WorksAhead {
 public:
  virtual ~WorksAhead() = default;
  virtual std::unique_ptr<ListingBackend> MakeListing() const = 0;  // thread-safe
  // Does what has not been done yet; like ops, not in a capture. `work`: of a backend that MakeListing returned. What
  // fails is reported by the op that needs it.
  virtual void DoAhead(const OneTimeWork& work) = 0;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_ONE_TIME_WORK_H_
