#include "server/common/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

#include "engine/base/fallbacks.h"
#include "engine/base/logging.h"

namespace kinora {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily Family(const char* name, const char* help, MetricType type, double value) {
  prometheus::ClientMetric metric;
  (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  return {.name = name, .help = help, .type = type, .metric = {metric}};
}

std::string ReadFile(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The fields of /proc/self/stat that are used, in their units (proc(5)).
struct Stat {
  uint64_t user_ticks = 0, system_ticks = 0, start_ticks = 0, virtual_bytes = 0;
  int64_t threads = 0, resident_pages = 0;
  bool ok = false;
};

Stat ReadStat() {
  const std::string text = ReadFile("/proc/self/stat");
  const size_t name_end = text.rfind(')');  // the program's name may contain any character
  if (name_end == std::string::npos) return {};
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  const auto skip = [&](int count) {
    for (int i = 0; i < count; ++i) fields >> skipped;
  };
  Stat stat;
  skip(11);  // state … cmajflt
  fields >> stat.user_ticks >> stat.system_ticks;
  skip(4);  // cutime … nice
  fields >> stat.threads;
  skip(1);  // itrealvalue
  fields >> stat.start_ticks >> stat.virtual_bytes >> stat.resident_pages;
  stat.ok = !fields.fail();
  return stat;
}

// When the system was started, in seconds since 1970; 0: unknown.
double BootTime() {
  std::istringstream lines(ReadFile("/proc/stat"));
  for (std::string word; lines >> word;) {
    double seconds = 0;
    if (word == "btime" && lines >> seconds) return seconds;
  }
  return 0;
}

void AddStat(std::vector<MetricFamily>& out) {
  const Stat stat = ReadStat();
  if (!stat.ok) return;
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  out.push_back(Family("process_cpu_seconds_total", "User and system CPU time", MetricType::Counter,
                       static_cast<double>(stat.user_ticks + stat.system_ticks) / ticks));
  out.push_back(Family("process_resident_memory_bytes", "Resident memory", MetricType::Gauge,
                       static_cast<double>(stat.resident_pages) * static_cast<double>(sysconf(_SC_PAGESIZE))));
  out.push_back(Family("process_virtual_memory_bytes", "Address space", MetricType::Gauge,
                       static_cast<double>(stat.virtual_bytes)));
  out.push_back(Family("process_threads", "Threads", MetricType::Gauge, static_cast<double>(stat.threads)));
  if (const double boot = BootTime(); boot > 0) {
    out.push_back(Family("process_start_time_seconds", "Start time, in seconds since 1970", MetricType::Gauge,
                         boot + static_cast<double>(stat.start_ticks) / ticks));
  }
}

void AddDescriptors(std::vector<MetricFamily>& out) {
  std::error_code error;
  const std::filesystem::directory_iterator open("/proc/self/fd", error);
  if (!error) {
    const auto count = std::distance(begin(open), end(open)) - 1;  // without the descriptor of this iteration
    out.push_back(Family("process_open_fds", "Open descriptors", MetricType::Gauge, static_cast<double>(count)));
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    out.push_back(Family("process_max_fds", "Maximum number of open descriptors", MetricType::Gauge,
                         static_cast<double>(limit.rlim_cur)));
  }
}

// Processes without a CUDA backend have no counts.
void AddFallbacks(std::vector<MetricFamily>& out) {
  MetricFamily family{.name = "kinora_cuda_fallbacks_total",
                      .help = "Calls that cuDNN should compute and slower products did",
                      .type = MetricType::Counter,
                      .metric = {}};
  for (const FallbackCount& each : FallbackCounts()) {
    prometheus::ClientMetric metric;
    metric.label = {{"op", each.op}, {"reason", each.reason}};
    metric.counter.value = static_cast<double>(each.count);
    family.metric.push_back(std::move(metric));
  }
  if (!family.metric.empty()) out.push_back(std::move(family));
}

}  // namespace

std::vector<MetricFamily> ProcessMetrics() {
  std::vector<MetricFamily> out;
  AddStat(out);
  AddDescriptors(out);
  out.push_back(Family("kinora_log_dropped_lines_total", "Log lines dropped because the reader of stderr was too slow",
                       MetricType::Counter, static_cast<double>(DroppedLogLines())));
  AddFallbacks(out);
  return out;
}

}  // namespace kinora
