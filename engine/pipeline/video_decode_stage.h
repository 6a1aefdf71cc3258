// Decodes the finished latent tile by tile and emits blended frames in order, as soon as they are final.
//
// A temporal group is all tiles of one span of latent frames. Once a group has been added up, the frames before the
// next group's start are final and are emitted; overlapping frames stay. Memory is therefore that of one group and one
// tile, independent of the clip's length.
#ifndef KINORA_ENGINE_PIPELINE_VIDEO_DECODE_STAGE_H_
#define KINORA_ENGINE_PIPELINE_VIDEO_DECODE_STAGE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/parallel/exec.h"
#include "engine/pipeline/frame_blender.h"
#include "engine/pipeline/frame_decoder.h"
#include "engine/pipeline/step_gate.h"
#include "engine/pipeline/tiling.h"

namespace kinora {

class VideoDecodeStage {
 public:
  static constexpr int64_t kFramesPerCall = FrameBlender::kFramesPerCall;
  // Receives the results of a run on rank 0. An error from a call ends the run.
  struct Follower {
    FrameBlender::Emit emit;  // gets every frame of the clip once, in order
    // Called before the first tile and after each round of tiles (one per rank); the last call has done == total.
    absl::FunctionRef<absl::Status(int64_t done, int64_t total)> progress;
    // Called between parts of a tile's work.
    absl::FunctionRef<absl::Status()> work;
    bool floats = false;  // provide DecodedFrames::rgb; slower
  };

  // Makes the decoder's next draw of noise (FrameDecoder::NoiseDraws). Returns its values, which stay until the next
  // draw that is wanted, or none if they are not wanted on this rank or ops are only counted. Called on every rank once
  // per draw, in order. All ranks must return the same status.
  using DrawNoise = absl::FunctionRef<absl::StatusOr<HostNoise>(bool wanted)>;
  // Returns the first draw that a rank of `ranks` wants; none if it wants none.
  static std::optional<int64_t> FirstDraw(const TilePlan& plan, int64_t draws, int64_t rank, int64_t ranks);

  // decoder must outlive the stage.
  explicit VideoDecodeStage(const FrameDecoder& decoder) : decoder_(decoder) {}

  // latent: [F', H', W', C] f32 in the transformer's normalised space. plan: the decoder's for that shape. Every
  // rank of exec.mesh.world() must call it with the same latent. Fails with Internal, naming the frame, if a pixel is
  // not a number, or with draw_noise's status. If the follower ends the run, the other ranks return Cancelled at the
  // same tile, and the group stays usable. A device with its own memory decodes one round ahead of the follower (unless
  // `floats`).
  absl::Status Run(Exec& exec, const TilePlan& plan, const Tensor& latent, DrawNoise draw_noise,
                   const Follower& follower) const;

 private:
  // What the tiles of a run share.
  struct Shared {
    const TilePlan& plan;
    Tensor features;
    FrameBlender* blender;  // null on ranks other than 0
    FrameDecoder::GoOn go_on;
    absl::Status ended{};  // go_on's error. The rank then decodes no more, but takes part in what follows
  };
  // The noise of a run: what has been drawn, and what is still to be drawn.
  struct Noise {
    int64_t left = 0;      // draws
    bool of_clip = false;  // one draw for all tiles
    DrawNoise draw;
    HostNoise values{};  // this rank's tile's, or the clip's
    absl::Status Take(absl::Span<const PlannedTile> tiles, size_t mine);
  };

  absl::Status DecodeTiles(Exec& exec, Shared& shared, Noise& noise, StepGate& gate) const;
  // tiles: those of one round, at most one per rank.
  absl::Status DecodeRound(Exec& exec, Shared& shared, absl::Span<const PlannedTile> tiles, Noise& noise) const;
  void AddRound(Exec& exec, const Tensor& decoded, absl::Span<const PlannedTile> tiles, FrameBlender* blender) const;
  int64_t ElementsOf(const PlannedTile& tile) const { return tile.OutputShape(decoder_.colours()).elements(); }

  const FrameDecoder& decoder_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_VIDEO_DECODE_STAGE_H_
