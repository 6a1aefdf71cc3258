// From a checkpoint to the weights of layers: read (only this rank's slices) → dequantise → check finite → round →
// pack, by runs of rows on the threads of the backend: beside the weights themselves a few MiB per thread are taken.
// What is loaded, and which problems are found in which order, does not depend on the threads.
//
//   KINORA_ASSIGN_OR_RETURN(WeightLoader loader, WeightLoader::Open(checkpoint, mesh, backend, DType::kBF16));
//   WeightLoader block = loader.Under("transformer").Under("transformer_blocks.7");
//   KINORA_ASSIGN_OR_RETURN(Weight qkv, block.LoadWeight({"attn1.to_q", "attn1.to_k", "attn1.to_v"},
//                                                        {.out = 4096, .in = 4096, .split = Split::kRows}));
//   KINORA_ASSIGN_OR_RETURN(Parameter norm, block.LoadTensor("attn1.q_norm.weight", {4096}, {.split = Split::kRows}));
//   …
//   KINORA_RETURN_IF_ERROR(loader.Finish());
//
// A tensor that is missing, has another shape, a dtype that cannot be read, or a value that is not finite does not stop
// the run: it is noted, an empty weight is returned in its place, and Finish names all of them. So nothing may be
// computed before Finish has returned OK. The loads themselves return only the failures that end it: I/O, memory.
#ifndef KINORA_ENGINE_WEIGHTS_WEIGHT_LOADER_H_
#define KINORA_ENGINE_WEIGHTS_WEIGHT_LOADER_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/ops/backend.h"
#include "engine/parallel/mesh.h"
#include "engine/weights/checkpoint.h"
#include "engine/weights/file_rows.h"
#include "engine/weights/parameter.h"
#include "engine/weights/precision.h"
#include "engine/weights/weight_set.h"
#include "engine/weights/weight_specs.h"

namespace kinora {

// A transposed convolution as an ordinary one with stride · out channels in the order (phase, c), to be followed by
// DepthToSpace by `stride` in time: out[stride·n + p] = Σ_t x[n − before + t] · w[p][t]. `after` makes the row count
// equal.
struct TransposedConv {
  Weight weight;
  int taps = 0, before = 0, after = 0;
};

struct RecordedTensor {  // what a dry run asked for
  std::string name;      // canonical
  Shape shape;           // whole, as in the file
};

class WeightLoader {  // a cheap handle; copies share one state. Not thread-safe.
 public:
  // precision: of weights whose spec names none; of stacked ones by the first's name. mesh and backend must outlive the
  // loader. Refuses NVFP4, and what Precision::CheckOn refuses. A dry backend: only names, shapes and dtypes are
  // checked, no data is read.
  static absl::StatusOr<WeightLoader> Open(std::shared_ptr<const Checkpoint> checkpoint, const Mesh& mesh,
                                           Backend& backend, const Precision& precision);
  // No file: everything asked for exists, nothing is read, and recorded() lists it. The backend must be dry.
  static WeightLoader Dry(const Mesh& mesh, Backend& backend, const Precision& precision);

  WeightLoader Under(std::string_view prefix) const;  // names below are relative to `prefix` and a dot
  WeightLoader On(const Mesh& mesh) const;            // the same file and notes, split for another mesh
  // For what another rank holds: names, shapes and dtypes are checked, nothing is read or held. What it loads is empty.
  WeightLoader HeldElsewhere() const;
  bool Has(std::string_view name) const;  // in the file, whatever its shape; dry: false

  // modules: names without ".weight" and ".bias". Result: [modules · out, in], or this rank's part of it.
  // InvalidArgument if the split dimension is not divisible by mesh.tensor().size().
  absl::StatusOr<Weight> LoadWeight(std::initializer_list<std::string_view> modules, const WeightSpec& spec);
  // One matrix [out, in] for each vector wanted, so that the layer is the sum of the products of all; vector 0 has the
  // bias.
  absl::StatusOr<std::vector<Weight>> LoadInterleaved(std::string_view module, const InterleavedSpec& spec);
  absl::StatusOr<Weight> LoadConv(std::string_view module, const ConvSpec& spec);
  absl::StatusOr<TransposedConv> LoadTransposedConv(std::string_view module, const TransposedConvSpec& spec);
  // name: the whole key. full: its shape in the file.
  absl::StatusOr<Parameter> LoadTensor(std::string_view name, const Shape& full, const TensorSpec& spec = {});
  // The same in two steps, for what the host works on first.
  absl::StatusOr<HostParameter> LoadOnHost(std::string_view name, const Shape& full, const TensorSpec& spec = {});
  absl::StatusOr<Parameter> Upload(HostParameter parameter);
  // A matrix of the host's own making, as Ops::PrepareWeight; empty where the parameter has no values for a problem.
  absl::StatusOr<Weight> Prepare(const HostParameter& matrix, const Shape& shape, DType dtype);

  // InvalidArgument listing the first 20 problems: those noted, and every tensor of a component of which something was
  // read that nothing asked for and that is not in the table of known unread names (key_tables.h).
  absl::Status Finish() const;
  // What was loaded, to be rewritten in place; whoever keeps it keeps the checkpoint open. Transposed convolutions are
  // not in it. Null in a dry run without a file.
  std::shared_ptr<WeightSet> weights() const;

  const Precision& precision() const;
  Backend& backend() const;
  const Mesh& mesh() const;
  const std::vector<RecordedTensor>& recorded() const;  // dry runs: in the order asked for
  int64_t recorded_elements() const;                    // their sum: the parameter count
  int64_t tensor_bytes() const;                         // of every Parameter handed out; Weights are counted by Ops

 private:
  struct State;
  bool reads() const;
  WeightLoader(std::shared_ptr<State> state, const Mesh& mesh) : state_(std::move(state)), mesh_(&mesh) {}
  std::string FullName(std::string_view name) const;
  LocatedTensor Locate(std::string name, const Shape& full);
  std::optional<TensorSource> Find(const std::string& name, const Shape& full);
  float ScaleOf(const std::string& name, const TensorInfo& weight);
  void NoteIfNotFinite(const LocatedTensor& tensor);
  // Extent of this rank's part of `extent` when the weight is split along `split`.
  absl::StatusOr<int64_t> PartOf(int64_t extent, Split split, const std::string& name) const;
  // From row `first` on, as many as `out` has.
  absl::Status ReadTensor(const LocatedTensor& tensor, int64_t first, float add, const Tensor& out);
  absl::StatusOr<Buffer> ReadBias(const LocatedTensor& tensor, int64_t extent);
  absl::StatusOr<std::vector<Weight>> PackRows(const WeightRows& rows, const Buffer& bias, DType dtype);
  absl::StatusOr<std::vector<Weight>> Pack(WeightRecipe recipe, const Buffer& bias, std::optional<DType> precision);

  std::shared_ptr<State> state_;
  const Mesh* mesh_;
  std::string prefix_;
  bool elsewhere_ = false;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_WEIGHTS_WEIGHT_LOADER_H_
