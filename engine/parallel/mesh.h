// Divides a group of ranks: guidance × tokens × tensor, tensor varying fastest.
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
  int guidance = 1;  // ranks that divide the guidance passes: 1, 2 or 4
  int tokens = 1;    // ranks that divide the video tokens: 1, 2, 4 or 8
  int tensor = 1;    // ranks that divide the heads and feed-forward columns of every layer
  int ranks() const { return guidance * tokens * tensor; }
  // "1 rank" or "guidance=2,tokens=2"
  std::string ToString() const;
  // Parses ToString's format, "tokens=2,guidance=2", and "" as one rank. The result is valid. Fails with
  // InvalidArgument naming the error.
  static absl::StatusOr<MeshShape> Parse(const std::string& text);
  // Returns the valid shapes of `ranks` ranks, as ToString writes them: "tokens=4", "guidance=2,tokens=2", …
  static std::vector<std::string> Of(int ranks);
  // Fails with InvalidArgument, naming the axis, if a size is not supported. The model checks whether its heads are
  // divisible by `tensor`.
  absl::Status Validate() const;
};

// This rank's four communicators. A group of one is free: its collectives copy or do nothing.
class Mesh {
 public:
  // folded: the meshes that Folded returns.
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
  // Returns this rank's part of `extent` columns or heads, split evenly over tensor(); CHECK-fails if that is not
  // possible.
  struct Part {
    int64_t begin, end;
  };
  Part TensorPart(int64_t extent) const;
  Communicator& tensor() const { return *tensor_; }
  Communicator& tokens() const { return *tokens_; }
  Communicator& guidance() const { return *guidance_; }
  Communicator& world() const { return *world_; }
  Communicator& group(MeshAxis axis) const;

  // Returns a mesh of the same ranks with `factor` (2, 4) times as many token ranks and `factor` times fewer guidance
  // ranks, for a stage with too few passes for these. It shares tensor() and world() with this mesh and has its own
  // groups of tokens and guidance, made together with this mesh. Null if there is no such shape.
  const Mesh* Folded(int factor) const;
  // Over this mesh and the folded ones: whether a group of the axis has more than one rank, and the sum of the groups'
  // counts.
  bool Has(MeshAxis axis) const;
  CollectiveCounts Counts(MeshAxis axis) const;

  // Calls Communicator::Observe for every group of more than one rank.
  void Observe(CollectiveObserver& observer, const Clock& clock) const;

  // Aborts all groups of this rank. Thread-safe.
  void Abort() const;
  // Sum over all groups (Communicator::wait_seconds).
  double WaitSeconds() const;

  // Makes a mesh of one rank.
  static std::unique_ptr<Mesh> Single();

 private:
  // Calls `f` once for every group.
  void ForEachGroup(absl::FunctionRef<void(MeshAxis axis, Communicator& group)> f) const;

  MeshShape shape_;
  std::shared_ptr<Communicator> tensor_, tokens_, guidance_, world_;
  std::vector<std::unique_ptr<Mesh>> folded_;
};

// Makes the mesh of rank `rank` of a valid shape. Calls `make` for each of this rank's groups of several ranks, on all
// ranks in the same order. members: the ranks of the whole mesh that form the group, in order; rank: this rank's index
// in it. No two groups of a rank have the same axis and number of members. Fails as `make`.
using MakeCommunicator = std::function<absl::StatusOr<std::unique_ptr<Communicator>>(
    MeshAxis axis, absl::Span<const int> members, int rank)>;
absl::StatusOr<std::unique_ptr<Mesh>> MakeMesh(const MeshShape& shape, int rank, const MakeCommunicator& make);

}  // namespace kinora

#endif  // KINORA_ENGINE_PARALLEL_MESH_H_
