// The flags of kinora-render, parsed and checked as far as possible without a model.
#ifndef KINORA_SERVER_RENDER_RENDER_FLAGS_H_
#define KINORA_SERVER_RENDER_RENDER_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/command_line.h"
#include "engine/model/decoder_border.h"
#include "engine/ops/cuda_switches.h"
#include "engine/parallel/mesh.h"
#include "engine/weights/precision.h"
#include "kinora/v1/video_generation.pb.h"

namespace kinora {

struct RenderOptions {
  bool help = false;  // with help or version no other flag is read
  bool version = false;
  std::vector<std::string> model{};  // PATH or name=VALUE, as ModelFiles::Parse accepts them
  v1::Generation generation{};       // --request, then the flags; the seed is always present
  bool seed_drawn = false;           // the seed is not from a flag or a file
  v1::Output output{};
  std::string output_path{};  // empty: only --dump
  std::string noise_path{};
  std::string dump_path{};
  std::string trace_path{};
  std::string preview_path{};
  std::string device{};  // as OpenBackend accepts it
  Precision precision{};
  CudaFlags cuda{};
  MeshShape mesh{};
  bool processes = false;  // run each rank as a process
  int threads = 0;         // compute threads of all ranks together; 0: the machine's cores
  bool untiled_decode = false;
  DecoderBorder decoder_border = DecoderBorder::kShift;
  bool json = false;
  bool quiet = false;
  std::string like{};         // a released model's name; only with plan, instead of `model`
  bool plan = false;          // only estimate; generation holds the requested shape, if any
  int64_t device_memory = 0;  // bytes, for --plan; 0: not given
};

absl::Span<const FlagSpec> RenderFlags();
std::string RenderUsage();

// InvalidArgument or NotFound names the flag; Unimplemented names a device or precision that this build lacks.
absl::StatusOr<RenderOptions> ParseRenderFlags(absl::Span<const std::string> arguments);

// Parses a valid shape such as "tokens=2,guidance=2". InvalidArgument names --ranks.
absl::StatusOr<MeshShape> ParseRanks(const std::string& text);

}  // namespace kinora

#endif  // KINORA_SERVER_RENDER_RENDER_FLAGS_H_
