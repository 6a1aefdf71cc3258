#include "engine/pipeline/step_word.h"

#include <atomic>

namespace kinora {

StepWord::StepWord(Exec& exec)
    : exec_(exec),
      device_scope_(exec.arena),
      host_scope_(exec.host),
      word_(exec.arena.Alloc(DType::kF32, {1})),
      given_(exec.host.Alloc(DType::kF32, {1})),
      read_(exec.host.Alloc(DType::kF32, {Stream::kMarks})) {
  if (!exec.ops.dry()) *given_.data<float>() = 0;
}

void StepWord::End() { std::atomic_ref<float>(*given_.data<float>()).store(1, std::memory_order_release); }

void StepWord::Enqueue(int64_t step) {
  Stream& stream = exec_.ops.stream();
  if (exec_.mesh.world().rank() == 0) stream.CopyFromPinned(given_.raw(), word_);
  exec_.mesh.world().Broadcast(0, word_, stream);
  stream.CopyToHost(word_, read_.data<float>() + step % Stream::kMarks);
}

bool StepWord::EndsAfter(int64_t step) const { return read_.data<float>()[step % Stream::kMarks] != 0; }

}  // namespace kinora
