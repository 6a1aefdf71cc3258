// Loads the weights of layers from a checkpoint: read (only this rank's slices) → dequantise → check finite →
// round → pack, in runs of rows on the backend's threads. Beside the weights this needs a few MiB per thread. Neither
// the weights nor the problems found and their order depend on the threads.
//
//   KINORA_ASSIGN_OR_RETURN(WeightLoader loader, WeightLoader::Open(checkpoint, mesh, backend, DType::kBF16));
//   WeightLoader block = loader.Under("transformer").Under("transformer_blocks.7");
//   KINORA_ASSIGN_OR_RETURN(Weight qkv, block.LoadWeight({"attn1.to_q", "attn1.to_k", "attn1.to_v"},
//                                                        {.out = 4096, .in = 4096, .split = Split::kRows}));
//   KINORA_ASSIGN_OR_RETURN(Parameter norm, block.LoadTensor("attn1.q_norm.weight", {4096}, {.split = Split::kRows}));
//   …
//   KINORA_RETURN_IF_ERROR(loader.Finish());
//
// A tensor that is missing, or has another shape, an unsupported dtype or a non-finite value, does not stop the
// loading: the loader notes it, returns an empty weight, and Finish reports all such tensors. So compute nothing before
// Finish has returned OK. The loads themselves fail only with errors that end the loading: I/O, memory, a split that is
// not possible.
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

// A transposed convolution as an ordinary one with stride · out channels in the order (phase, c), followed by
// DepthToSpace by `stride` in time: out[stride·n + p] = Σ_t x[n − before + t] · w[p][t]. `after` makes the row
// counts equal.
struct TransposedConv {
  Weight weight;
  int taps = 0, before = 0, after = 0;
};

struct RecordedTensor {  // a tensor that a dry run requested
  std::string name;      // canonical
  Shape shape;           // the whole shape, as in the file
};

class WeightLoader {  // a cheap handle; copies share one state. Not thread-safe.
 public:
  // precision: for weights whose spec has none; stacked weights use the first one's name. mesh and backend must outlive
  // the loader. Fails with InvalidArgument for NVFP4, otherwise as Precision::CheckOn. With a dry backend, checks
  // names, shapes and dtypes only and reads no data but FP8 scales.
  static absl::StatusOr<WeightLoader> Open(std::shared_ptr<const Checkpoint> checkpoint, const Mesh& mesh,
                                           Backend& backend, const Precision& precision);
  // Makes a loader without a file: every requested tensor exists, nothing is read, and recorded() lists the requests.
  // The backend must be dry.
  static WeightLoader Dry(const Mesh& mesh, Backend& backend, const Precision& precision);

  WeightLoader Under(std::string_view prefix) const;  // names below are relative to `prefix` and a dot
  WeightLoader On(const Mesh& mesh) const;            // the same file and notes, split for another mesh
  // Returns a loader for tensors that another rank holds: it checks names, shapes and dtypes, reads only FP8 scales,
  // holds nothing, and returns empty weights.
  WeightLoader HeldElsewhere() const;
  bool Has(std::string_view name) const;  // whether the file has it, in any shape; false without a file

  // modules: names without ".weight" and ".bias". Returns [modules · out, in], or this rank's part of it. Fails with
  // InvalidArgument if the split dimension is not divisible by mesh.tensor().size().
  absl::StatusOr<Weight> LoadWeight(std::initializer_list<std::string_view> modules, const WeightSpec& spec);
  // Returns one matrix [out, in] for each wanted vector, so that the layer is the sum of all products; that of vector 0
  // has the bias.
  absl::StatusOr<std::vector<Weight>> LoadInterleaved(std::string_view module, const InterleavedSpec& spec);
  absl::StatusOr<Weight> LoadConv(std::string_view module, const ConvSpec& spec);
  absl::StatusOr<TransposedConv> LoadTransposedConv(std::string_view module, const TransposedConvSpec& spec);
  // name: the whole key, with its suffix. full: its shape in the file.
  absl::StatusOr<Parameter> LoadTensor(std::string_view name, const Shape& full, const TensorSpec& spec = {});
  // LoadTensor in two steps, for values that the host transforms in between.
  absl::StatusOr<HostParameter> LoadOnHost(std::string_view name, const Shape& full, const TensorSpec& spec = {});
  absl::StatusOr<Parameter> Upload(HostParameter parameter);
  // Packs a matrix computed on the host, as Ops::PrepareWeight; returns an empty weight if a problem left the parameter
  // without values.
  absl::StatusOr<Weight> Prepare(const HostParameter& matrix, const Shape& shape, DType dtype);

  // Fails with InvalidArgument listing the first 20 problems: those noted, and every tensor that nothing requested, in
  // a component of which something was requested, unless IsKnownUnread (key_tables.h).
  absl::Status Finish() const;
  // The loaded matrices, to be rewritten in place, without transposed convolutions. Keeps the checkpoint open. Null in
  // a dry run without a file.
  std::shared_ptr<WeightSet> weights() const;

  const Precision& precision() const;
  Backend& backend() const;
  const Mesh& mesh() const;
  const std::vector<RecordedTensor>& recorded() const;  // of Dry, in the order requested
  int64_t recorded_elements() const;                    // their sum: the parameter count
  int64_t tensor_bytes() const;                         // of all uploaded Parameters; Ops counts Weights

 private:
  struct State;
  bool reads() const;
  WeightLoader(std::shared_ptr<State> state, const Mesh& mesh) : state_(std::move(state)), mesh_(&mesh) {}
  std::string FullName(std::string_view name) const;
  LocatedTensor Locate(std::string name, const Shape& full);
  std::optional<TensorSource> Find(const std::string& name, const Shape& full);
  float ScaleOf(const std::string& name, const TensorInfo& weight);
  void NoteIfNotFinite(const LocatedTensor& tensor);
  // Returns the extent of this rank's part of `extent` for a weight that is split along `split`.
  absl::StatusOr<int64_t> PartOf(int64_t extent, Split split, const std::string& name) const;
  // Reads as many rows as `out` has, from row `first` on, and adds `add` to each element.
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
