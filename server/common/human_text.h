// Durations and sizes as people read them. Exact ones are for --json.
#ifndef KINORA_SERVER_COMMON_HUMAN_TEXT_H_
#define KINORA_SERVER_COMMON_HUMAN_TEXT_H_

#include <cstdint>
#include <string>

namespace kinora {

// "0.04 s", "2.9 s", "42 s", "4 min 05 s", "1 h 04 min", "2 d 03 h", "66 d". Not a number, or negative: "unknown".
std::string HumanSeconds(double seconds);
// One unit, rounded down: "42 s", "4 min", "1 h", "66 d". Negative, as of a clock that is behind: "0 s".
std::string HumanAge(double seconds);
// "12.30 GiB", "45.3 MiB", "1.5 KiB", "17 bytes".
std::string HumanBytes(int64_t bytes);
// In the unit that HumanBytes gives `like`, so that the two compare at a glance.
std::string HumanBytesLike(int64_t bytes, int64_t like);

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_HUMAN_TEXT_H_
