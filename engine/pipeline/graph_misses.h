// Steps that ran without a graph, counted by reason.
#ifndef KINORA_ENGINE_PIPELINE_GRAPH_MISSES_H_
#define KINORA_ENGINE_PIPELINE_GRAPH_MISSES_H_

#include <array>
#include <cstdint>

namespace kinora {

enum class GraphMiss : uint8_t {
  kNewShape,        // the first step of a shape
  kOtherAddresses,  // the shape is known, but its memory has moved
  kCaptureFailed,   // a step of this shape could not be captured
  kOutOfMemory,     // the same, for lack of memory and with no other graph left to drop
  kOff,             // the stream captures nothing
};
inline constexpr int kGraphMisses = 5;
inline constexpr const char* kGraphMissNames[kGraphMisses] = {"new_shape", "other_addresses", "capture_failed",
                                                              "out_of_memory", "off"};
using GraphMisses = std::array<int64_t, kGraphMisses>;  // by GraphMiss

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_GRAPH_MISSES_H_
