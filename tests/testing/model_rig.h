// Runs parts of a model on any of Backends(): an Exec over memory that holds NaN, with uploads and downloads.
//
//   ModelRig rig(GetParam(), DType::kBF16, &taps.taps());
//   WeightLoader weights = rig.Open({.paths = {golden.WriteCheckpoint()}});
//   …
//   connector.Forward(rig.exec, rig.Upload(features), lengths, out);
//   EXPECT_TRUE(Near(rig.Download(out).tensor(), golden.Get("out.video_context"), rig.tolerance));
#ifndef KINORA_TESTS_TESTING_MODEL_RIG_H_
#define KINORA_TESTS_TESTING_MODEL_RIG_H_

#include <memory>
#include <optional>

#include "engine/parallel/exec.h"
#include "engine/weights/weight_loader.h"
#include "tests/testing/backends.h"

namespace kinora {

struct ModelRig : Device {
  // `taps` and `on_mesh` must outlive the rig; a null mesh means one rank. `arena_bytes` is the size of the device
  // arena and, if the host's memory is separate, of the host arena.
  ModelRig(const TestedBackend& on, DType dtype, Taps* taps = nullptr, const Mesh* on_mesh = nullptr,
           int64_t arena_bytes = 96 << 20);
  WeightLoader Open(const ModelFiles& files);

  const double tolerance;  // against the float32 reference, with activations of exec.dtype
  const std::unique_ptr<Mesh> alone = Mesh::Single();
  const Mesh& mesh;
  Arena arena;
  std::optional<Arena> host;
  Exec exec;
};

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_MODEL_RIG_H_
