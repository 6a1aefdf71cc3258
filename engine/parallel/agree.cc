#include "engine/parallel/agree.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

constexpr char kMark[] = "kinora/agreed";

// Exchanges one number with the other ranks by `collective` and waits for it. A dry run only plans the memory.
absl::StatusOr<float> Exchange(Exec& exec, float word, absl::FunctionRef<void(const Tensor& word)> collective) {
  Stream& stream = exec.ops.stream();
  ArenaScope temp(exec.arena);
  const Tensor shared = temp.Alloc(DType::kF32, {1});
  if (exec.ops.dry()) return word;
  stream.CopyFromHost(&word, shared);
  collective(shared);
  stream.CopyToHost(shared, &word);
  KINORA_RETURN_IF_ERROR(stream.Synchronize());
  return word;
}

}  // namespace

bool IsAgreed(const absl::Status& status) { return status.ok() || status.GetPayload(kMark).has_value(); }

absl::Status Agreed(absl::Status status) {
  status.SetPayload(kMark, absl::Cord());  // nothing on OK
  return status;
}

absl::Status WithoutMark(absl::Status status) {
  status.ErasePayload(kMark);
  return status;
}

absl::Status CauseOf(absl::Span<const absl::Status> results) {
  const auto rank_of_cause = [](const absl::Status& status) {
    if (status.ok()) return 4;
    if (!IsAgreed(status)) return absl::IsAborted(status) ? 1 : 0;
    return absl::IsCancelled(status) ? 3 : 2;
  };
  return *std::min_element(results.begin(), results.end(), [&](const absl::Status& a, const absl::Status& b) {
    return rank_of_cause(a) < rank_of_cause(b);  // the first of equals
  });
}

absl::Status AgreeWithRankZero(Exec& exec, const absl::Status& status) {
  Communicator& world = exec.mesh.world();
  if (world.size() == 1) return Agreed(status);
  KINORA_ASSIGN_OR_RETURN(const float go_on, Exchange(exec, status.ok() ? 1.0f : 0.0f, [&](const Tensor& word) {
                            world.Broadcast(0, word, exec.ops.stream());
                          }));
  if (world.rank() == 0) return Agreed(status);
  return go_on != 0.0f ? absl::OkStatus() : Agreed(absl::CancelledError("rank 0 ended the run"));
}

absl::Status ShareFromRankZero(Exec& exec, const absl::Status& status, absl::Span<int64_t> numbers) {
  constexpr int kWords = 4;  // 16 bits each, which float32 holds exactly
  KINORA_RETURN_IF_ERROR(AgreeWithRankZero(exec, status));
  Communicator& world = exec.mesh.world();
  if (world.size() == 1 || numbers.empty()) return absl::OkStatus();
  std::vector<float> words;
  words.reserve(numbers.size() * kWords);
  for (const int64_t number : numbers) {
    for (int i = 0; i < kWords; ++i) {
      words.push_back(static_cast<float>(static_cast<uint64_t>(number) >> (16 * i) & 0xffff));
    }
  }
  Stream& stream = exec.ops.stream();
  ArenaScope temp(exec.arena);
  const Tensor shared = temp.Alloc(DType::kF32, {std::ssize(words)});
  stream.CopyFromHost(words.data(), shared);
  world.Broadcast(0, shared, stream);
  stream.CopyToHost(shared, words.data());
  KINORA_RETURN_IF_ERROR(stream.Synchronize());
  for (size_t i = 0; i < numbers.size(); ++i) {
    uint64_t number = 0;
    for (int word = 0; word < kWords; ++word) number |= static_cast<uint64_t>(words[i * kWords + word]) << (16 * word);
    numbers[i] = static_cast<int64_t>(number);
  }
  return absl::OkStatus();
}

absl::Status AgreeAmongAll(Exec& exec, const absl::Status& status) {
  Communicator& world = exec.mesh.world();
  if (world.size() == 1) return Agreed(status);
  KINORA_ASSIGN_OR_RETURN(const float failed, Exchange(exec, status.ok() ? 0.0f : 1.0f, [&](const Tensor& word) {
                            world.AllReduceSum(word, exec.ops.stream());
                          }));
  if (!status.ok()) return Agreed(status);
  return failed == 0.0f ? absl::OkStatus() : Agreed(absl::CancelledError("another rank refused the run"));
}

absl::Status OnRankZero(Exec& exec, absl::FunctionRef<absl::Status()> action) {
  return AgreeWithRankZero(exec, exec.mesh.world().rank() == 0 ? action() : absl::OkStatus());
}

}  // namespace kinora
