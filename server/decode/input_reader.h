// Decodes the inputs that a request names into the request, in the process that runs it.
#ifndef KINORA_SERVER_DECODE_INPUT_READER_H_
#define KINORA_SERVER_DECODE_INPUT_READER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/file_descriptor.h"
#include "engine/request/request.h"
#include "server/decode/decoder_process.h"

namespace kinora {

// Limits for what the inputs of one request decode to.
struct InputLimits {
  int64_t bytes = int64_t{4} << 30;        // of memory, all inputs together
  absl::Duration time = absl::Minutes(3);  // for decoding, all inputs together
  int64_t channels = 0;                    // of a sound, which may also be mono; 0: any number
  int32_t frames = 0;                      // of a clip, if the request leaves its length open; 0: kMostPictures
};

// Returns InputLimits.bytes for a worker that may use `memory` bytes of the host, `planned` of them for weights and
// activations: an eighth of `memory` or the rest of it, if that is less, but between 64 MiB and the default.
int64_t InputBytes(int64_t memory, int64_t planned);

struct InputSource {
  DecoderOptions decoder;
  InputLimits limits{};
  // Opens the regular file of an input for reading.
  std::function<absl::StatusOr<FileDescriptor>(const std::string& id)> open;
};

// Fills in `pixels`, `clip` and `audio` of an effective request: images after their H.264 pass, and clips and sounds
// from their beginning for as long as the request can use them. The audio of a retake stays null if its clip has no
// sound. Blocks.
//
// InvalidArgument, "input ID: …": as from DecodeInput, or the input exceeds the limits or is of the wrong type for
// its use. Other errors are those of DecodeInput and `open`.
absl::Status ReadInputs(const InputSource& source, GenerationRequest& request);

// Whether the request names any inputs.
bool NamesInputs(const GenerationRequest& request);

// Returns the sizes and lengths of the inputs that were read, for ranks that do not receive the data. The number of
// values depends only on which inputs the request names. SetMeasures gives a request pictures without pixels, and
// sounds without samples, of those sizes.
std::vector<int64_t> MeasuresOf(const GenerationRequest& request);
void SetMeasures(const std::vector<int64_t>& measures, GenerationRequest& request);

}  // namespace kinora

#endif  // KINORA_SERVER_DECODE_INPUT_READER_H_
