// How a group of ranks is divided: guidance × tokens × tensor, tensor varying fastest.
#ifndef KINORA_ENGINE_PARALLEL_MESH_H_
#define KINORA_ENGINE_PARALLEL_MESH_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/parallel/communicator.h"

namespace kinora {

struct MeshShape {
  int guidance = 1;  // ranks that share out the guidance passes: 1, 2 or 4
  int tokens = 1;    // ranks that share out the video tokens: 1, 2, 4 or 8
  int tensor = 1;    // ranks that share out the heads and feed-forward columns of every layer
  int ranks() const { return guidance * tokens * tensor; }
  // "1 rank" or "guidance=2,tokens=2"
  std::string ToString() const;
  // The way back: "tokens=2,guidance=2", "" for one rank. InvalidArgument naming what is wrong; the shape is valid.
  static absl::StatusOr<MeshShape> Parse(const std::string& text);
  // The valid shapes of so many ranks, as ToString writes them: "tokens=4", "guidance=2,tokens=2", …
  static std::vector<std::string> Of(int ranks);
  // InvalidArgument, naming the axis, for a size that no group can have. Whether a model's heads divide by `tensor` is
  // the model's to say.
  absl::Status Validate() const;
};

// This rank's four communicators. A group of one costs nothing: its collectives copy or do nothing.
class Mesh {
 public:
  // folded: as Folded gives them.
  Mesh(MeshShape shape, std::shared_ptr<Communicator> tensor, std::shared_ptr<Communicator> tokens,
       std::shared_ptr<Communicator> guidance, std::shared_ptr<Communicator> world,
       std::vector<std::unique_ptr<Mesh>> folded = {})
      : shape_(shape),
        tensor_(std::move(tensor)),
        tokens_(std::move(tokens)),
        guidance_(std::move(guidance)),
        world_(std::move(world)),
        folded_(std::move(folded)) {}

  const MeshShape& shape() const { return shape_; }
  // This rank's part of `extent` columns or heads that are split evenly over tensor(); CHECK-fails if they cannot be.
  struct Part {
    int64_t begin, end;
  };
  Part TensorPart(int64_t extent) const;
  Communicator& tensor() const { return *tensor_; }
  Communicator& tokens() const { return *tokens_; }
  Communicator& guidance() const { return *guidance_; }
  Communicator& world() const { return *world_; }
  Communicator& group(MeshAxis axis) const;

  // The same ranks with `factor` (2, 4) times as many token ranks and as many fewer guidance ranks, for a stage with
  // too few passes for these: with tensor() and world() of this mesh and groups of tokens and guidance of their own,
  // which were made with it. Null: there is no such shape.
  const Mesh* Folded(int factor) const;
  // Of this mesh and the folded ones: whether a group of the axis has more than one rank, and what all of them counted.
  bool Has(MeshAxis axis) const;
  CollectiveCounts Counts(MeshAxis axis) const;

  // Communicator::Observe of every group of more than one rank.
  void Observe(CollectiveObserver& observer, const Clock& clock) const;

  // Aborts all groups of this rank. Thread-safe.
  void Abort() const;
  // Of all its groups (Communicator::wait_seconds).
  double WaitSeconds() const;

  // One rank alone.
  static std::unique_ptr<Mesh> Single();

 private:
  // Every group once.
  void ForEachGroup(absl::FunctionRef<void(MeshAxis axis, Communicator& group)> f) const;

  MeshShape shape_;
  std::shared_ptr<Communicator> tensor_, tokens_, guidance_, world_;
  std::vector<std::unique_ptr<Mesh>> folded_;
};

// Rank `rank` of a valid shape. `make` is asked for this rank's group of each axis: `members` are the ranks of the
// whole mesh that form it, in order, this one at members[rank]; groups of one are made here. All ranks ask in the same
// order. No two groups of a rank are of one axis and of as many members. What `make` fails with.
using MakeCommunicator = std::function<absl::StatusOr<std::unique_ptr<Communicator>>(
    MeshAxis axis, absl::Span<const int> members, int rank)>;
absl::StatusOr<std::unique_ptr<Mesh>> MakeMesh(const MeshShape& shape, int rank, const MakeCommunicator& make);

}  // namespace kinora

#endif  // KINORA_ENGINE_PARALLEL_MESH_H_
