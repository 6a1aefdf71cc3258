#include "engine/pipeline/memory_plan.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/request/request_rules.h"

namespace kinora {
namespace {

constexpr int64_t kAny = std::numeric_limits<int64_t>::max();

// Returns the last of the growing clips 1 … count that fits, by bisection; 0: none fits.
absl::StatusOr<int64_t> LastThatFits(const DryModel& model, const ReservedMemory& reserved, int64_t count,
                                     absl::FunctionRef<GenerationRequest(int64_t i)> clip) {
  int64_t fits = 0, beyond = count + 1;
  while (beyond - fits > 1) {
    const int64_t middle = fits + (beyond - fits) / 2;
    KINORA_ASSIGN_OR_RETURN(const RunPlan plan, model.Plan(clip(middle), nullptr));
    (reserved.Holds(plan) ? fits : beyond) = middle;
  }
  return fits;
}

int64_t LongestSteps(const RecipeDescription& d) { return (d.max_frames - 1) / d.frame_multiple + 1; }
int32_t FramesOf(const RecipeDescription& d, int64_t i) { return static_cast<int32_t>((i - 1) * d.frame_multiple + 1); }

// Every kind of model has this recipe, and no recipe of one stage needs more memory.
absl::StatusOr<GenerationRequest> DefaultRequest(const DryModel& model) {
  GenerationRequest request;
  request.prompt = "probe";
  request.recipe = Recipe::kOneStage;
  return ResolveRequest(model.description(), request);
}

// Returns the memory for the longest clips that fit `arena_bytes`, over combinations of the smallest, default and
// largest width and height; {} if none fits.
// Host memory also suffices for sizes in between. It holds the bytes of frames of at most two groups, while the device
// holds one group's sums as floats; and noise for a tile of the diffusion decoder, 12 bytes per pixel, while the device
// holds more than twice as much for that pixel. So half of `arena_bytes` is enough; and so is the need of the longest
// clips.
absl::StatusOr<ReservedMemory> OfLargestClips(const DryModel& model, int64_t arena_bytes) {
  KINORA_ASSIGN_OR_RETURN(GenerationRequest request, DefaultRequest(model));
  const RecipeDescription& d = *model.description().Find(request.recipe, request.upsampler);
  const int32_t least = std::max(d.min_size, d.size_multiple);
  const std::set<int32_t> widths = {least, request.width, d.max_width}, heights = {least, request.height, d.max_height};
  ReservedMemory most;
  int64_t longest = 0;  // most host memory that any clip of these sizes needs
  for (const int32_t width : widths) {
    for (const int32_t height : heights) {
      request.width = width;
      request.height = height;
      request.num_frames = FramesOf(d, LongestSteps(d));
      KINORA_ASSIGN_OR_RETURN(const RunPlan whole, model.Plan(request, nullptr));
      longest = std::max(longest, whole.host_arena_bytes);
      KINORA_ASSIGN_OR_RETURN(request.num_frames,
                              MostFrames(model, {.arena_bytes = arena_bytes, .host_arena_bytes = kAny}, request));
      if (request.num_frames == 0) continue;
      KINORA_ASSIGN_OR_RETURN(const RunPlan plan, model.Plan(request, nullptr));
      most.arena_bytes = std::max(most.arena_bytes, plan.arena_bytes);
      most.host_arena_bytes = std::max(most.host_arena_bytes, plan.host_arena_bytes);
    }
  }
  if (most.arena_bytes == 0) return most;
  most.host_arena_bytes = std::max(most.host_arena_bytes, std::min(longest, arena_bytes / 2));
  most.host_arena_bytes += most.host_arena_bytes / 8;  // margin for sizes in between
  return most;
}

// Whether the arena can hold the longest clip of the largest size.
absl::StatusOr<bool> HoldsEverything(const DryModel& model, int64_t arena_bytes) {
  KINORA_ASSIGN_OR_RETURN(GenerationRequest request, DefaultRequest(model));
  const RecipeDescription& d = *model.description().Find(request.recipe, request.upsampler);
  request.width = d.max_width;
  request.height = d.max_height;
  request.num_frames = FramesOf(d, LongestSteps(d));
  KINORA_ASSIGN_OR_RETURN(const RunPlan plan, model.Plan(request, nullptr));
  return plan.arena_bytes <= arena_bytes;
}

}  // namespace

absl::StatusOr<ReservedMemory> PlanMemory(const DryModel& model, const MemoryLimit& memory) {
  KINORA_ASSIGN_OR_RETURN(const GenerationRequest usual, DefaultRequest(model));
  KINORA_ASSIGN_OR_RETURN(const RunPlan plan, model.Plan(usual, nullptr));
  const int64_t beside = plan.device_bytes() - plan.arena_bytes;
  if (model.traits().unified_memory) {
    // Without tiles, the default request can need more than the machine has.
    const int64_t least = model.untiled_decode() ? 0 : plan.arena_bytes;
    return ReservedMemory{.arena_bytes = std::max(memory.bytes / 4 * 3 - beside, least)};
  }
  const int64_t room = memory.bytes - beside - plan.driver_bytes;
  KINORA_ASSIGN_OR_RETURN(ReservedMemory reserved, OfLargestClips(model, room));
  if (reserved.arena_bytes == 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("model: its weights and workspaces need ", beside, " bytes of device memory, the driver ",
                     plan.driver_bytes, ", a clip of the default size ", plan.arena_bytes, ", and ", memory.by,
                     " leaves ", memory.bytes, "; give it a device with more memory, or end what else uses this one"));
  }
  KINORA_ASSIGN_OR_RETURN(const bool everything, HoldsEverything(model, room));
  if (!everything) reserved.arena_bytes = room;
  reserved.left_bytes = room - reserved.arena_bytes;
  return reserved;
}

absl::StatusOr<int64_t> MaxTokens(const DryModel& model, const ReservedMemory& reserved) {
  const ModelDescription& description = model.description();
  const RecipeDescription* own = description.Find(description.default_recipe, "");
  const RecipeDescription& d = own != nullptr ? *own : description.recipes[0];
  KINORA_ASSIGN_OR_RETURN(const GenerationRequest request, ResolveRequest(description, {.recipe = d.recipe}));
  const int64_t longest = LongestSteps(d);
  const int64_t widest =
      std::max((d.max_width - request.width) / d.size_multiple, (d.max_height - request.height) / d.size_multiple);
  const auto clip =
      [&](int64_t i) {  // 1 … longest: latent frames; beyond: one more cell each way, up to the largest sides
        GenerationRequest r = request;
        r.num_frames = FramesOf(d, std::min(i, longest));
        const int32_t more = static_cast<int32_t>(std::max<int64_t>(0, i - longest)) * d.size_multiple;
        r.width = std::min(r.width + more, d.max_width);
        r.height = std::min(r.height + more, d.max_height);
        return r;
      };
  KINORA_ASSIGN_OR_RETURN(const int64_t fits, LastThatFits(model, reserved, longest + widest, clip));
  if (fits == longest + widest) return 0;
  const GenerationRequest largest = clip(std::max<int64_t>(1, fits));
  return description.VideoTokens(largest.num_frames, largest.height, largest.width);
}

absl::StatusOr<int32_t> MostFrames(const DryModel& model, const ReservedMemory& reserved,
                                   const GenerationRequest& request) {
  const RecipeDescription& d = *model.description().Find(request.recipe, request.upsampler);
  const auto clip = [&](int64_t i) {
    GenerationRequest r = request;
    r.num_frames = FramesOf(d, i);
    r.noise = {};  // has the shape of the original size
    return r;
  };
  KINORA_ASSIGN_OR_RETURN(const int64_t fits, LastThatFits(model, reserved, LongestSteps(d), clip));
  return fits == 0 ? 0 : FramesOf(d, fits);
}

absl::StatusOr<std::optional<ClipShape>> NearestThatFits(const DryModel& model, const ReservedMemory& reserved,
                                                         const GenerationRequest& request) {
  KINORA_ASSIGN_OR_RETURN(const int32_t frames, MostFrames(model, reserved, request));
  if (frames > 0) return ClipShape{.width = request.width, .height = request.height, .num_frames = frames};
  const RecipeDescription& d = *model.description().Find(request.recipe, request.upsampler);
  const int32_t multiple = std::max(1, d.size_multiple), least = (d.min_size + multiple - 1) / multiple * multiple;
  const int64_t sizes = std::max(request.width, request.height) / multiple;
  const auto side = [&](int32_t whole, int64_t i) {  // i/sizes of `whole`, rounded to the grid
    return std::max({least, multiple, static_cast<int32_t>(whole * i / sizes / multiple) * multiple});
  };
  const auto clip = [&](int64_t i) {
    GenerationRequest r = request;
    r.width = side(request.width, i);
    r.height = side(request.height, i);
    r.noise = {};  // has the shape of the original size
    return r;
  };
  KINORA_ASSIGN_OR_RETURN(const int64_t fits, LastThatFits(model, reserved, sizes, clip));
  if (fits == 0) return std::nullopt;
  return ClipShape{
      .width = side(request.width, fits), .height = side(request.height, fits), .num_frames = request.num_frames};
}

}  // namespace kinora
