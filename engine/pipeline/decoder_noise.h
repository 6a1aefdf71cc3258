// The noise that a run's video decoder draws, after all other draws of the run. On a device with its own memory the
// first draw is made while the clip is still denoised, which leaves the host idle.
#ifndef KINORA_ENGINE_PIPELINE_DECODER_NOISE_H_
#define KINORA_ENGINE_PIPELINE_DECODER_NOISE_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/diffusion/noise.h"
#include "engine/model/host_noise.h"
#include "engine/parallel/exec.h"
#include "engine/request/given_noise.h"
#include "engine/tensor/tensor.h"

namespace kinora {

class DecoderNoise {
 public:
  // draws: FrameDecoder::NoiseDraws. Allocates memory for the largest of them in exec.host, which must stay reserved
  // until the object is destroyed. source and given must outlive the object.
  DecoderNoise(Exec& exec, NoiseSource& source, const GivenNoise& given, std::vector<Shape> draws);
  ~DecoderNoise();
  DecoderNoise(const DecoderNoise&) = delete;
  DecoderNoise& operator=(const DecoderNoise&) = delete;

  int64_t draws() const { return static_cast<int64_t>(draws_.size()); }
  // Begins this draw on a thread, after those before it, which are not wanted here. At most once, before Take. Nothing
  // else may use the source from now on.
  void DrawAhead(int64_t draw);
  // Makes the next draw; what was not drawn ahead, with the host's threads. Returns its values, which stay until the
  // next draw that is wanted, or none if they are not wanted or ops are only counted. Noise that the request gives
  // replaces what is drawn. Fails like CheckGivenShape.
  absl::StatusOr<HostNoise> Take(Exec& exec, bool wanted);

 private:
  absl::Span<float> Room(int64_t draw) const;
  void EndAhead();

  NoiseSource& source_;
  const GivenNoise& given_;
  const std::vector<Shape> draws_;
  int64_t next_ = 0;
  Tensor memory_;

  std::optional<int64_t> ahead_;  // the draw that was made ahead
  absl::Span<float> rest_;        // of it, not made yet. The thread's until it has ended
  std::atomic<bool> enough_ = false;
  std::thread thread_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_DECODER_NOISE_H_
