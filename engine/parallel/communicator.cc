#include "engine/parallel/communicator.h"

#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"

namespace kinora {

std::string_view CollectiveName(Collective op) {
  switch (op) {
    case Collective::kAllReduceSum:
      return "all_reduce_sum";
    case Collective::kAllGather:
      return "all_gather";
    case Collective::kAllToAll:
      return "all_to_all";
    case Collective::kBroadcast:
      return "broadcast";
    case Collective::kGatherTo:
      return "gather_to";
  }
  return "unknown";
}

std::string_view MeshAxisName(MeshAxis axis) {
  switch (axis) {
    case MeshAxis::kTensor:
      return "tensor";
    case MeshAxis::kTokens:
      return "tokens";
    case MeshAxis::kGuidance:
      return "guidance";
    case MeshAxis::kWorld:
      break;
  }
  return "world";
}

void Communicator::Observe(CollectiveObserver& observer, const Clock& clock) {
  observer_ = &observer;
  clock_ = &clock;
}

void Communicator::Measured(Collective op, int64_t bytes, const Moments& at) {
  wait_seconds_ += absl::ToDoubleSeconds(at.all_came - at.begin);
  if (Tracing()) {
    const absl::Duration since = TraceNow() - at.end;  // clock_ may differ from the trace's clock
    AddTraceSpan("wait", "wait", at.begin + since, at.all_came + since, {.axis = MeshAxisName(axis_).data()});
  }
  if (observer_ == nullptr) return;
  observer_->OnCollective({.axis = axis_,
                           .op = op,
                           .bytes = bytes,
                           .seconds = absl::ToDoubleSeconds(at.end - at.begin),
                           .wait_seconds = absl::ToDoubleSeconds(at.all_came - at.begin)});
}

void Communicator::Measured(Collective op, int64_t bytes, absl::Duration took) {
  observer_->OnCollective(
      {.axis = axis_, .op = op, .bytes = bytes, .seconds = absl::ToDoubleSeconds(took), .wait_seconds = std::nullopt});
}

int64_t BytesSent(Collective op, int64_t bytes, int size, bool root) {
  switch (op) {
    case Collective::kAllReduceSum:
      return 2 * (size - 1) * bytes / size;
    case Collective::kAllGather:
      return (size - 1) * bytes;
    case Collective::kAllToAll:
      return (size - 1) * bytes / size;
    case Collective::kBroadcast:
      return root && size > 1 ? bytes : 0;
    case Collective::kGatherTo:
      return root ? 0 : bytes;
  }
  return 0;
}

void CheckAllReduceSum(const Tensor& inout) {
  KINORA_CHECK(inout.contiguous()) << inout.shape().ToString();
  KINORA_CHECK(inout.dtype() == DType::kF32 || inout.dtype() == DType::kBF16) << DTypeName(inout.dtype());
}

void CheckAllGather(const Communicator& group, const Tensor& local, const Tensor& all) {
  KINORA_CHECK(local.contiguous()) << local.shape().ToString();
  KINORA_CHECK(all.contiguous() && all.dtype() == local.dtype()) << all.shape().ToString();
  KINORA_CHECK_EQ(all.elements(), group.size() * local.elements());
}

void CheckAllToAll(const Communicator& group, const Tensor& send, const Tensor& recv, int batches) {
  KINORA_CHECK(send.contiguous()) << send.shape().ToString();
  KINORA_CHECK(recv.contiguous() && recv.dtype() == send.dtype() && recv.elements() == send.elements())
      << recv.shape().ToString();
  KINORA_CHECK(batches > 0 && send.elements() % (int64_t{batches} * group.size()) == 0)
      << send.shape().ToString() << " among " << group.size() << ", " << batches << " times";
}

void CheckBroadcast(const Communicator& group, int root, const Tensor& inout) {
  KINORA_CHECK(root >= 0 && root < group.size()) << root;
  KINORA_CHECK(inout.contiguous()) << inout.shape().ToString();
}

void CheckGatherTo(const Communicator& group, int root, absl::Span<const int64_t> counts, const Tensor& local,
                   const Tensor& all) {
  KINORA_CHECK(root >= 0 && root < group.size()) << root;
  KINORA_CHECK_EQ(static_cast<int>(counts.size()), group.size());
  KINORA_CHECK(local.contiguous()) << local.shape().ToString();
  KINORA_CHECK_EQ(local.elements(), counts[group.rank()]);
  if (group.rank() != root) return;
  KINORA_CHECK(all.contiguous() && all.dtype() == local.dtype()) << all.shape().ToString();
  KINORA_CHECK_EQ(all.elements(), std::accumulate(counts.begin(), counts.end(), int64_t{0}));
}

}  // namespace kinora
