// Formats durations and sizes for people. Exact values are for --json.
#ifndef KINORA_SERVER_COMMON_HUMAN_TEXT_H_
#define KINORA_SERVER_COMMON_HUMAN_TEXT_H_

#include <cstdint>
#include <string>

namespace kinora {

// "0.04 s", "2.9 s", "42 s", "4 min 05 s", "1 h 04 min", "2 d 03 h", "66 d". NaN or negative: "unknown".
std::string HumanSeconds(double seconds);
// One unit, rounded down: "42 s", "4 min", "1 h", "66 d". Negative, because of clock skew: "0 s".
std::string HumanAge(double seconds);
// One unit, rounded to the nearest: "42 s", "4 min", "1 h", "7 d", so that a week is "7 d" when one second of it is
// over. Negative: "0 s".
std::string HumanTimeLeft(double seconds);
// "12.30 GiB", "45.3 MiB", "1.5 KiB", "17 bytes".
std::string HumanBytes(int64_t bytes);
// Formats `bytes` in the unit that HumanBytes picks for `like`, so that the two are easy to compare.
std::string HumanBytesLike(int64_t bytes, int64_t like);

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_HUMAN_TEXT_H_
