// The noise that a run's video decoder draws, after all other draws of the run. On a device with its own memory the
// first draw is made while the clip is still denoised, which leaves the host idle.
#ifndef KINORA_ENGINE_PIPELINE_DECODER_NOISE_H_
#define KINORA_ENGINE_PIPELINE_DECODER_NOISE_H_

#include <atomic>
#include <cstdint>
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
  ~DecoderNoise() { EndAhead(); }
  DecoderNoise(const DecoderNoise&) = delete;
  DecoderNoise& operator=(const DecoderNoise&) = delete;

  int64_t draws() const { return static_cast<int64_t>(draws_.size()); }
  // Makes the next part of this draw, after those before it, which are not wanted here. Returns false if nothing is
  // left. Before Take.
  bool Advance(int64_t draw);
  // Advances on a thread until the first Take or the end of the draw. At most once. From now on nothing else may use
  // the source.
  void DrawAhead(int64_t draw);
  // Makes the next draw: computes what Advance has left on the host's threads. Returns its values, which stay until the
  // next draw that is wanted, or none if they are not wanted or ops are only counted. Noise that the request gives
  // replaces what is drawn. Fails like CheckGivenShape.
  absl::StatusOr<HostNoise> Take(Exec& exec, bool wanted);

 private:
  absl::Span<float> Room(int64_t draw) const;
  const HostArray* Given(int64_t draw) const;  // null: none
  void EndAhead();

  const int rank_;
  const GivenNoise& given_;
  const std::vector<Shape> draws_;
  int64_t next_ = 0;  // draw that Take makes

  // The thread's until it has ended:
  NoiseSource& source_;
  Tensor memory_;
  int64_t ahead_ = 0;       // draw that was advanced
  int64_t begun_ = 0;       // draws whose bits have been used up; the last one's perhaps in part
  absl::Span<float> rest_;  // what is left of that one

  std::atomic<bool> enough_ = false;
  std::thread thread_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_DECODER_NOISE_H_
