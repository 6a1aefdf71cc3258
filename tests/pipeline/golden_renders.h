// Whole renders of the goldens pipeline_*: each golden's request and model, the outputs of a run, and the tolerances
// against the reference.
#ifndef KINORA_TESTS_PIPELINE_GOLDEN_RENDERS_H_
#define KINORA_TESTS_PIPELINE_GOLDEN_RENDERS_H_

#include <map>
#include <string>
#include <vector>

#include "engine/pipeline/pipeline.h"
#include "tests/testing/backends.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {

// Records everything that a clip consists of.
class ClipRecorder : public ClipSink, public RunObserver {
 public:
  explicit ClipRecorder(bool intermediates = true) : intermediates_(intermediates) {}
  absl::Status Begin(const ClipInfo& info) override;
  absl::Status Frames(int64_t first, const Tensor& rgb8) override;
  absl::Status Audio(const Tensor& waveform) override { return Intermediate("waveform", waveform); }
  absl::Status End() override;
  bool WantsIntermediates() const override { return intermediates_; }
  absl::Status FloatFrames(int64_t first, const Tensor& rgb) override;
  absl::Status Intermediate(std::string_view name, const Tensor& value) override;

  ClipInfo info_;
  std::vector<uint8_t> rgb8_;
  std::vector<float> frames_;
  std::map<std::string, std::vector<float>> values_;
  bool ended_ = false;

 private:
  const bool intermediates_;
};

GenerationRequest RequestOf(Golden& golden);
inline GenerationRequest RequestOf(Golden&& golden) { return RequestOf(golden); }
// Returns the options for a golden whose parameters name the model's file.
PipelineOptions OptionsOf(const Golden& golden, DType precision);
// Creates a text encoder folder like that of models/tiny, for a model trained with `rows` rows of text.
void MakeTextEncoder(const TemporaryDirectory& folder, int64_t rows);

// Plans, loads and renders on a mesh. Rank 0 records to `sink`.
absl::Status RenderOn(const TestedBackend& on, PipelineOptions options, const Mesh& mesh,
                      const GenerationRequest& request, ClipRecorder& sink);

struct RenderTolerances {
  double context, latent, waveform;  // ‖a − b‖ / ‖b‖
  double frames;                     // peak signal-to-noise ratio, dB
};
RenderTolerances FloatTolerances(const TestedBackend& on);
// Compares every output of the golden.
void ExpectRender(const ClipRecorder& clip, Golden& golden, const RenderTolerances& tolerances);

}  // namespace kinora

#endif  // KINORA_TESTS_PIPELINE_GOLDEN_RENDERS_H_
