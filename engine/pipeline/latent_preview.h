// Small pictures of a run on its way: a linear map from a latent's channels to colours, fitted once per decoder.
#ifndef KINORA_ENGINE_PIPELINE_LATENT_PREVIEW_H_
#define KINORA_ENGINE_PIPELINE_LATENT_PREVIEW_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/diffusion/latents.h"
#include "engine/model/video_decoder.h"
#include "engine/parallel/exec.h"
#include "engine/pipeline/run_observer.h"

namespace kinora {

// The colour of a cell in -1..1: its channels times the rows of `matrix`, and the last row.
struct LatentToRgb {
  std::vector<float> matrix;  // [channels + 1, 3]
  bool operator==(const LatentToRgb&) const = default;
};

// Least squares between random smooth latents and the mean colours of the pixels that the decoder makes of their cells;
// the same in every call. Waits for the device. Temporaries come from exec.arena: FitArenaBytes.
// on_draw: called after each decode, of which there are a few; what it says, unless OK, ends the fit.
absl::StatusOr<LatentToRgb> FitLatentToRgb(Exec& exec, const VideoDecoder& decoder,
                                           absl::FunctionRef<absl::Status()> on_draw = &absl::OkStatus);
int64_t FitArenaBytes(DType dtype, const VideoDecoder& decoder);

struct PreviewPicture {  // a pixel per cell
  int64_t width = 0, height = 0;
  std::vector<uint8_t> rgb;  // [height, width, 3]
  bool operator==(const PreviewPicture&) const = default;
};

// Of the latent frame in the middle. latent: [grid.tokens() or more, channels] f32, the device's, which it waits for.
absl::StatusOr<PreviewPicture> MakePreview(Exec& exec, const LatentToRgb& map, const LatentGrid& grid,
                                           const Tensor& latent);

// Shows the estimate of the clean video after every `every` steps of a denoising stage.
class PreviewObserver : public RunObserver {
 public:
  using Show = std::function<absl::Status(const Progress& progress, const PreviewPicture& picture)>;
  // every >= 1
  PreviewObserver(LatentToRgb map, int64_t every, Show show)
      : map_(std::move(map)), every_(every), show_(std::move(show)) {}
  bool WantsLatents(int64_t step, int64_t /*steps*/) const override { return step % every_ == 0; }
  absl::Status OnStep(const Progress& progress, const StepLatents* latents) override;

 private:
  const LatentToRgb map_;
  const int64_t every_;
  const Show show_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_LATENT_PREVIEW_H_
