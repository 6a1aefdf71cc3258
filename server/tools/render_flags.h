// What kinora-render is asked to do: its flags, read and checked as far as that needs no model.
#ifndef KINORA_SERVER_TOOLS_RENDER_FLAGS_H_
#define KINORA_SERVER_TOOLS_RENDER_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/command_line.h"
#include "engine/parallel/mesh.h"
#include "engine/weights/precision.h"
#include "kinora/v1/video_generation.pb.h"

namespace kinora {

struct RenderOptions {
  bool help = false;  // with this or the next nothing else is read
  bool version = false;
  std::vector<std::string> model{};  // PATH or name=VALUE, as ModelFiles::Parse takes them
  v1::Generation generation{};       // --request, then the flags; the seed is always present
  bool seed_drawn = false;           // nobody gave one
  v1::Output output{};
  std::string output_path{};  // empty: --dump alone
  std::string noise_path{};
  std::string dump_path{};
  std::string trace_path{};
  std::string preview_path{};
  std::string device{};  // as OpenBackend takes it
  Precision precision{};
  MeshShape mesh{};
  bool processes = false;  // each rank is one
  int threads = 0;         // of computation, all ranks together; 0: the machine's cores
  bool json = false;
  bool quiet = false;
  std::string like{};         // with plan, instead of `model`: a released model's name
  bool plan = false;          // no clip: generation holds the shape asked for, if any, and nothing is written
  int64_t device_memory = 0;  // bytes that --plan fits clips into; 0: not given
};

absl::Span<const FlagSpec> RenderFlags();
std::string RenderUsage();

// InvalidArgument or NotFound naming the flag; Unimplemented "FLAG: not available yet" for what the contract knows and
// this build does not.
absl::StatusOr<RenderOptions> ParseRenderFlags(absl::Span<const std::string> arguments);

// "tokens=2,guidance=2" -> a valid shape. InvalidArgument naming --ranks.
absl::StatusOr<MeshShape> ParseRanks(const std::string& text);

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_RENDER_FLAGS_H_
