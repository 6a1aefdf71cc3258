// Diffusion decoders loaded from goldens, and their runs on whole clips.
#ifndef KINORA_TESTS_TESTING_DIFFUSION_DECODERS_H_
#define KINORA_TESTS_TESTING_DIFFUSION_DECODERS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/model/diffusion_video_decoder.h"
#include "tests/testing/drawn_checkpoint.h"
#include "tests/testing/model_rig.h"

namespace kinora {

// The decoder of a golden, in memory to run it in.
class DecoderRun {
 public:
  struct Options {
    DType dtype = DType::kF32;
    Taps* taps = nullptr;
    const Mesh* mesh = nullptr;                                     // null: one rank
    std::function<void(DiffusionDecoderConfig&)> change = nullptr;  // of the configuration
    int64_t slab_elements = NeighbourhoodBlock::kSlabElements;
  };
  // Ends the program if the decoder cannot be loaded.
  DecoderRun(Golden& golden, const TestedBackend& on, const Options& options);

  // Decodes the case's latent as one tile, with the noise of its seed. Returns [frames, height, width, 3] without the
  // padding.
  HostTensor Decode();
  uint64_t seed() const;  // of the noise
  // Draws the case's noise and checks that it is the reference's.
  std::vector<std::vector<float>> Noise();
  // The rows and columns of frames that the case holds.
  HostTensor Sampled(const HostTensor& frames) const;
  HostTensor Expected(const std::string& name) { return ToChannelsLast(golden_.Get(name)); }

  const DiffusionVideoDecoder& decoder() const { return *decoder_; }
  std::shared_ptr<const DiffusionVideoDecoder> shared_decoder() const { return decoder_; }
  ModelRig& rig() { return rig_; }

 private:
  Golden& golden_;
  ModelRig rig_;
  std::unique_ptr<DrawnCheckpoint> drawn_;
  std::shared_ptr<const DiffusionVideoDecoder> decoder_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_DIFFUSION_DECODERS_H_
