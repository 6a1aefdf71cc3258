// Rank 0's decision to end a loop of steps, sent to every rank behind each step. No host waits for it.
#ifndef KINORA_ENGINE_PIPELINE_STEP_WORD_H_
#define KINORA_ENGINE_PIPELINE_STEP_WORD_H_

#include <cstdint>

#include "engine/parallel/exec.h"

namespace kinora {

// A word is read from rank 0's host memory when the device reaches it, broadcast over exec.mesh.world(), and copied to
// one of several places in each rank's host memory. All ranks therefore read the same word for a step.
class StepWord {
 public:
  // Allocates from exec.arena and exec.host until destroyed.
  explicit StepWord(Exec& exec);

  // Rank 0: the words that no device has read yet end the loop.
  void End();
  // Enqueues the word of a step (0-based), behind its work. Every rank must call it.
  void Enqueue(int64_t step);
  // Whether rank 0 ends the loop after `step`. Valid once the stream has been waited for up to a mark behind
  // Enqueue(step), until the word of step + Stream::kMarks is enqueued.
  bool EndsAfter(int64_t step) const;

 private:
  Exec& exec_;
  ArenaScope device_scope_, host_scope_;
  const Tensor word_;   // [1] f32, on the device: 1 ends the loop
  const Tensor given_;  // [1] f32, on the host: rank 0's decision
  const Tensor read_;   // [Stream::kMarks] f32, on the host
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_STEP_WORD_H_
