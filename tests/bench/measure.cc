#include "tests/bench/measure.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>

#include "engine/base/check.h"

namespace kinora {

Times Now() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  const auto wall = std::chrono::steady_clock::now().time_since_epoch();
  return {std::chrono::duration<double>(wall).count(), seconds(usage.ru_utime) + seconds(usage.ru_stime)};
}

Times Measure(absl::FunctionRef<void()> run) {
  const Times before = Now();
  run();
  const Times after = Now();
  return {after.wall - before.wall, after.processor - before.processor};
}

double Median(std::vector<double> values) {
  KINORA_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Times Medians(const std::vector<Times>& times) {
  std::vector<double> wall, processor;
  for (const Times& t : times) {
    wall.push_back(t.wall);
    processor.push_back(t.processor);
  }
  return {Median(std::move(wall)), Median(std::move(processor))};
}

int64_t AnonymousBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "RssAnon:") continue;
    int64_t kib = -1;
    status >> kib;
    return kib * 1024;
  }
  return -1;
}

}  // namespace kinora
