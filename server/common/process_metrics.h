// Metrics that every process exports about itself, with the names that Prometheus client libraries use.
#ifndef KINORA_SERVER_COMMON_PROCESS_METRICS_H_
#define KINORA_SERVER_COMMON_PROCESS_METRICS_H_

#include <prometheus/metric_family.h>

#include <vector>

namespace kinora {

// Reads from /proc/self: process_cpu_seconds_total, process_resident_memory_bytes, process_virtual_memory_bytes,
// process_start_time_seconds (since 1970), process_threads, process_open_fds, process_max_fds. Omits values that cannot
// be read. Adds kinora_log_dropped_lines_total (logging.h) and, in a process with a CUDA backend,
// kinora_cuda_fallbacks_total{op,reason} (fallbacks.h).
std::vector<prometheus::MetricFamily> ProcessMetrics();

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_PROCESS_METRICS_H_
