// Small preview pictures of a run in progress: a linear map from latent channels to colours, fitted once per decoder.
#ifndef KINORA_ENGINE_PIPELINE_LATENT_PREVIEW_H_
#define KINORA_ENGINE_PIPELINE_LATENT_PREVIEW_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/diffusion/latents.h"
#include "engine/parallel/exec.h"
#include "engine/pipeline/frame_decoder.h"

namespace kinora {

// The colour of a cell in -1..1: its channels times the rows of `matrix`, and the last row.
struct LatentToRgb {
  std::vector<float> matrix;  // [channels + 1, 3]
  bool operator==(const LatentToRgb&) const = default;
};

// Fits the map by least squares between random smooth latents and the mean colours of the pixels that the decoder makes
// of their cells. Deterministic. Waits for the device. Needs FitArenaBytes of exec.arena.
// on_draw: called after each of a few decodes; an error ends the fit.
absl::StatusOr<LatentToRgb> FitLatentToRgb(Exec& exec, const FrameDecoder& decoder,
                                           absl::FunctionRef<absl::Status()> on_draw = &absl::OkStatus);
int64_t FitArenaBytes(DType dtype, const FrameDecoder& decoder);

struct PreviewPicture {  // one pixel per cell
  int64_t width = 0, height = 0;
  std::vector<uint8_t> rgb;  // [height, width, 3]
  bool operator==(const PreviewPicture&) const = default;
};

// Makes a picture of the middle latent frame. latent: [at least grid.tokens(), channels] f32 in device memory. Waits
// for the device.
absl::StatusOr<PreviewPicture> MakePreview(Exec& exec, const LatentToRgb& map, const LatentGrid& grid,
                                           const Tensor& latent);

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_LATENT_PREVIEW_H_
