// The stages of a run: the only list of them. Clients, metrics, traces and stored speeds use these names.
#ifndef KINORA_ENGINE_REQUEST_STAGE_H_
#define KINORA_ENGINE_REQUEST_STAGE_H_

#include <cstdint>
#include <string_view>

namespace kinora {

// Stages of one kind are assumed to cost the same. The numbers are those of StageKind in worker.proto, which describes
// each kind.
enum class StageKind : int32_t {
  kReadInputs = 1,
  kPutOnLoras,
  kEncode,
  kEncodeAudio,
  kEncodeInputs,
  kDenoise,
  kUpsample,
  kDecodeVideo,
  kDecodeAudio,
  kFinalize
};

struct Stage {
  StageKind kind = StageKind::kEncode;
  int32_t part = 0;  // 1 and 2 in a run that denoises twice, else 0

  constexpr std::string_view name() const;  // null-terminated; empty if there is no such stage
  bool operator==(const Stage&) const = default;
};

struct StageRow {
  Stage stage;
  std::string_view name;
};

// In the order of a run. put_on_loras can also precede a later stage.
inline constexpr StageRow kStages[] = {
    {{StageKind::kReadInputs}, "read_inputs"},
    {{StageKind::kPutOnLoras}, "put_on_loras"},
    {{StageKind::kEncode}, "encode"},
    {{StageKind::kEncodeAudio}, "encode_audio"},
    {{StageKind::kEncodeInputs}, "encode_inputs"},
    {{StageKind::kDenoise}, "denoise"},
    {{StageKind::kDenoise, 1}, "denoise_1"},
    {{StageKind::kUpsample}, "upsample"},
    {{StageKind::kDenoise, 2}, "denoise_2"},
    {{StageKind::kDecodeVideo}, "decode_video"},
    {{StageKind::kDecodeAudio}, "decode_audio"},
    {{StageKind::kFinalize}, "finalize"},
};

constexpr std::string_view Stage::name() const {
  for (const StageRow& row : kStages) {
    if (row.stage.kind == kind && row.stage.part == part) return row.name;
  }
  return "";
}

// Returns null if there is no such stage.
constexpr const StageRow* FindStage(std::string_view name) {
  for (const StageRow& row : kStages) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace kinora

#endif  // KINORA_ENGINE_REQUEST_STAGE_H_
