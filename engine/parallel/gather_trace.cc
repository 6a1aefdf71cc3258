#include "engine/parallel/gather_trace.h"

#include <algorithm>
#include <string>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/base/trace.h"

namespace kinora {
namespace {

constexpr int64_t kAlignment = 64, kMostPiece = 1 << 20;

// Returns the numbers of all ranks, on every rank. Sent as bytes, which every communicator supports.
absl::StatusOr<std::vector<int64_t>> AllNumbers(Exec& exec, int64_t own) {
  Communicator& world = exec.mesh.world();
  ArenaScope temp(exec.arena);
  std::vector<int64_t> numbers(world.size());
  const Tensor local = temp.Alloc(DType::kU8, {sizeof own});
  const Tensor all = temp.Alloc(DType::kU8, {world.size() * static_cast<int64_t>(sizeof own)});
  exec.ops.stream().CopyFromHost(&own, local);
  world.AllGather(local, all, exec.ops.stream());
  exec.ops.stream().CopyToHost(all, numbers.data());
  KINORA_RETURN_IF_ERROR(exec.ops.stream().Synchronize());
  return numbers;
}

// Returns the size of a piece for which the arena has room: one on this rank, and on rank 0 one per rank.
int64_t PieceBytes(const Exec& exec) {
  const int64_t free = exec.arena.capacity() - exec.arena.used() - 2 * kAlignment;
  const int64_t piece = free / (exec.mesh.world().size() + 1) / kAlignment * kAlignment;
  return std::clamp(piece, kAlignment, kMostPiece);
}

}  // namespace

absl::Status GatherTrace(Exec& exec) {
  Communicator& world = exec.mesh.world();
  Stream& stream = exec.ops.stream();
  const bool root = world.rank() == 0;
  KINORA_ASSIGN_OR_RETURN(const std::vector<int64_t> starts, AllNumbers(exec, absl::ToUnixNanos(TraceStart())));
  const std::string own = root ? "" : StopTrack(absl::FromUnixNanos(starts[0]));
  KINORA_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, AllNumbers(exec, static_cast<int64_t>(own.size())));
  KINORA_ASSIGN_OR_RETURN(const std::vector<int64_t> pieces, AllNumbers(exec, PieceBytes(exec)));
  const int64_t piece = *std::min_element(pieces.begin(), pieces.end());
  const int64_t longest = *std::max_element(sizes.begin(), sizes.end());

  ArenaScope temp(exec.arena);
  const Tensor local = temp.Alloc(DType::kU8, {root ? 0 : piece});
  const Tensor all = temp.Alloc(DType::kU8, {root ? piece * (world.size() - 1) : 0});
  std::vector<std::string> tracks(world.size());
  std::string received(all.elements(), '\0');
  for (int64_t at = 0; at < longest; at += piece) {
    std::vector<int64_t> counts;
    for (const int64_t size : sizes) counts.push_back(std::clamp<int64_t>(size - at, 0, piece));
    int64_t sum = 0;
    for (const int64_t count : counts) sum += count;
    const Tensor part = local.Rows(0, counts[world.rank()]);
    if (part.elements() > 0) stream.CopyFromHost(own.data() + at, part);
    world.GatherTo(0, counts, part, root ? all.Rows(0, sum) : Tensor(), stream);
    if (root) stream.CopyToHost(all.Rows(0, sum), received.data());
    KINORA_RETURN_IF_ERROR(stream.Synchronize());
    int64_t begin = 0;
    for (int rank = 0; root && rank < world.size(); begin += counts[rank++]) {
      tracks[rank].append(received, begin, counts[rank]);
    }
  }
  for (const std::string& track : tracks) AddTrack(track);
  return absl::OkStatus();
}

}  // namespace kinora
