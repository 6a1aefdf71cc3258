// The communicator of a group of one.
#ifndef KINORA_ENGINE_PARALLEL_SINGLE_COMMUNICATOR_H_
#define KINORA_ENGINE_PARALLEL_SINGLE_COMMUNICATOR_H_

#include "engine/parallel/communicator.h"

namespace kinora {

class SingleCommunicator : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void AllReduceSum(Tensor, Stream&) override {}
  void AllGather(const Tensor& local, Tensor all, Stream& stream) override { stream.Copy(local, all); }
  void AllToAll(const Tensor& send, Tensor recv, int /*batches*/, Stream& stream) override { stream.Copy(send, recv); }
  void Broadcast(int, Tensor, Stream&) override {}
  void GatherTo(int, absl::Span<const int64_t> counts, const Tensor& local, Tensor all, Stream& stream) override {
    if (counts[0] > 0) stream.Copy(local, all);
  }
  void Abort() override {}
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PARALLEL_SINGLE_COMMUNICATOR_H_
