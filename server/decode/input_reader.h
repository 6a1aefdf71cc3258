// What a request names, decoded into it: for whoever runs it.
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

inline constexpr int64_t kMostRequestBytes = int64_t{4} << 30;  // that all inputs of a request decode to

struct InputSource {
  DecoderOptions decoder;
  // The regular file that an id of the request means, open to be read.
  std::function<absl::StatusOr<FileDescriptor>(const std::string& id)> open;
};

// Fills in `pixels`, `clip` and `audio` of an effective request: images after their H.264 pass, of clips and sounds
// what the request's length can show, from their beginning. A retake's clip without sound leaves its audio null.
// Blocks.
//
// InvalidArgument "input ID: …": as DecodeInput, or it cannot be what it is named for; what `open` answers;
// Unavailable.
absl::Status ReadInputs(const InputSource& source, GenerationRequest& request);

// Whether it names any.
bool NamesInputs(const GenerationRequest& request);

// Sizes and lengths of what was read, for ranks that see no more of it: as many numbers of every request that names as
// many inputs. SetMeasures gives a request pictures without pixels, and sounds without samples, of those sizes.
std::vector<int64_t> MeasuresOf(const GenerationRequest& request);
void SetMeasures(const std::vector<int64_t>& measures, GenerationRequest& request);

}  // namespace kinora

#endif  // KINORA_SERVER_DECODE_INPUT_READER_H_
