// Shared by the tests of Gemma-3 and Gemma-4: runs of a golden's prompts.
#ifndef KINORA_TESTS_MODEL_GEMMA_RIG_H_
#define KINORA_TESTS_MODEL_GEMMA_RIG_H_

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/model/gemma.h"
#include "tests/model/text_rig.h"

namespace kinora {

inline constexpr int64_t kRows = 37;  // the goldens'; longer than their sliding windows of 16
inline const std::vector<int64_t> kLengths = {37, 22};

// Returns the packed token ids of the golden's prompts [first, last).
inline std::vector<int32_t> PackedIds(Golden& golden, size_t first = 0, size_t last = 2) {
  const Tensor& ids = golden.Get("in.input_ids");
  std::vector<int32_t> packed;
  for (size_t prompt = first; prompt < last; ++prompt) {
    const int32_t* row = ids.data<int32_t>() + static_cast<int64_t>(prompt) * kRows;
    packed.insert(packed.end(), row + kRows - kLengths[prompt], row + kRows);
  }
  return packed;
}

using States = std::vector<std::vector<float>>;

// Writes the golden's weights as a text encoder folder, which is removed at exit. One golden per test program.
inline std::string GoldenFolder(const std::string& name) {
  namespace fs = std::filesystem;
  struct Folder {
    explicit Folder(const std::string& name) : path(fs::path(GoldenCheckpoint(name)).replace_extension(".folder")) {
      fs::create_directories(path);
      fs::copy_file(GoldenCheckpoint(name), path / "model.safetensors", fs::copy_options::overwrite_existing);
      std::ofstream(path / "config.json") << Golden(name).metadata("config");
    }
    ~Folder() { fs::remove_all(path); }
    const fs::path path;
  };
  static const Folder folder(name);
  return folder.path.string();
}

inline absl::StatusOr<States> RunStates(ModelRig& rig, Golden& golden, const GemmaConfig& config, size_t first = 0,
                                        size_t last = 2, int64_t rows = kRows) {
  WeightLoader weights = rig.Open({.text_encoder = GoldenFolder(std::filesystem::path(golden.path()).stem().string())});
  KINORA_ASSIGN_OR_RETURN(const Gemma gemma, Gemma::Load(weights.Under("text_encoder"), config, rows));
  KINORA_RETURN_IF_ERROR(weights.Finish());
  const std::vector<int32_t> ids = PackedIds(golden, first, last);
  const std::vector<int64_t> lengths(kLengths.begin() + static_cast<int64_t>(first),
                                     kLengths.begin() + static_cast<int64_t>(last));
  States states(gemma.states());  // empty if another rank holds it
  const Tensor seen = rig.arena.Alloc(DType::kF32, {1});
  int64_t next = gemma.held_states().begin;
  gemma.Forward(rig.exec, ids, lengths, seen, [&](int64_t index, const Tensor& hidden) {
    EXPECT_EQ(index, next++);
    EXPECT_TRUE(gemma.held_states().holds(index));
    states[index] = rig.Floats(hidden);
    rig.exec.ops.Fill(static_cast<float>(index), seen);
  });
  EXPECT_EQ(rig.Floats(seen), std::vector<float>{static_cast<float>(config.layers)});
  return states;
}

// Returns the largest error of any state against the golden.
inline double WorstError(Golden& golden, States& states) {
  double worst = 0;
  for (size_t i = 0; i < states.size(); ++i) {
    const HostTensor expected = PackValid(golden.Get("out.hidden_states"), kLengths, static_cast<int64_t>(i));
    worst = std::max(
        worst, RelativeError(Tensor(DType::kF32, expected.tensor().shape(), states[i].data()), expected.tensor()));
  }
  return worst;
}

}  // namespace kinora

#endif  // KINORA_TESTS_MODEL_GEMMA_RIG_H_
