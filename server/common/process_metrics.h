// What every process of Linux can say of itself, under the names that Prometheus' own clients use.
#ifndef KINORA_SERVER_COMMON_PROCESS_METRICS_H_
#define KINORA_SERVER_COMMON_PROCESS_METRICS_H_

#include <prometheus/metric_family.h>

#include <vector>

namespace kinora {

// Read now from /proc/self: process_cpu_seconds_total, process_resident_memory_bytes, process_virtual_memory_bytes,
// process_start_time_seconds (since 1970), process_threads, process_open_fds, process_max_fds. What cannot be read is
// left out.
std::vector<prometheus::MetricFamily> ProcessMetrics();

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_PROCESS_METRICS_H_
