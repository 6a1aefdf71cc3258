// Sample rates of a given sound: those that the clip's file supports.
#ifndef KINORA_ENGINE_REQUEST_SOUND_RATES_H_
#define KINORA_ENGINE_REQUEST_SOUND_RATES_H_

#include <cstdint>

namespace kinora {

inline constexpr int32_t kLowestSampleRate = 1000, kHighestSampleRate = 192000;  // Hz

}  // namespace kinora

#endif  // KINORA_ENGINE_REQUEST_SOUND_RATES_H_
