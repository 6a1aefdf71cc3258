// Every metric of the frontend and of a worker, but kinora_build_info (build_version.h) and ProcessMetrics(). One that
// is not a field here does not exist; its label values are bounded by what is said beside it. Series whose labels are
// known at the start are there from the start, at 0. A process makes the struct that it fills and hands `Page` to its
// HttpPages.
#ifndef KINORA_SERVER_COMMON_METRICS_H_
#define KINORA_SERVER_COMMON_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <string>

namespace kinora {

class MetricsPage {
 public:
  prometheus::Registry& registry() { return registry_; }
  std::string Text() const;  // Prometheus text format, by name and labels: what is registered, and ProcessMetrics()

 private:
  prometheus::Registry registry_;
};

// Bucket bounds in seconds: of whole requests 0.5…86,400 (a day), of stages 0.01…86,400, of steps 0.01…3600, of
// collectives 10 µs…60, of swaps of LoRAs 1 ms…180.
const prometheus::Histogram::BucketBoundaries& RequestBuckets();
const prometheus::Histogram::BucketBoundaries& StageBuckets();
const prometheus::Histogram::BucketBoundaries& StepBuckets();
const prometheus::Histogram::BucketBoundaries& CollectiveBuckets();
const prometheus::Histogram::BucketBoundaries& SwapBuckets();

struct FrontendMetrics {
  explicit FrontendMetrics(prometheus::Registry& registry);

  // Jobs at their end, and requests refused before they became one. model: one that is known, else "unknown"; recipe:
  // the enum's name; code: the gRPC code's name (OK, CANCELLED, …).
  prometheus::Family<prometheus::Counter>& requests_total;
  prometheus::Family<prometheus::Counter>&
      admission_rejected_total;                        // reason: "invalid", "queue_full", "draining", "disk_full", …
  prometheus::Family<prometheus::Gauge>& queue_depth;  // priority: −10…10
  prometheus::Family<prometheus::Gauge>& queue_seconds;  // model; QueueMetrics
  prometheus::Histogram& queue_wait_seconds;             // QUEUED → RUNNING, every attempt
  prometheus::Family<prometheus::Histogram>&
      request_duration_seconds;  // model, recipe; creation → end, of COMPLETED jobs
  prometheus::Gauge& jobs_running;
  prometheus::Gauge& watchers;
  prometheus::Gauge& downloads;
  prometheus::Gauge& uploads;
  prometheus::Gauge& inputs;       // that are whole
  prometheus::Gauge& input_bytes;  // of the quota, taken
  prometheus::Counter& uploaded_bytes_total;
  prometheus::Family<prometheus::Gauge>& connections;  // field: "address", "admin_address", "join_address"
  prometheus::Family<prometheus::Counter>& connections_refused_total;  // field; reason: RefusalName
  prometheus::Counter& joins_unauthenticated_total;    // at join_address, without its token or certificate
  prometheus::Histogram& cancel_latency_seconds;       // CancelVideo of a running job → CANCELLED
  prometheus::Family<prometheus::Gauge>& group_state;  // group, state: 1 for the present state, 0 for the others
  prometheus::Family<prometheus::Counter>& group_restarts_total;  // reason
  prometheus::Counter& artifact_bytes_total;                      // of COMPLETED jobs
  prometheus::Counter& device_seconds_total;                      // Usage.device_seconds, all jobs
  prometheus::Gauge& job_store_unwritable_seconds;                // since commits fail; 0: the last one did not
};

struct WorkerMetrics {
  explicit WorkerMetrics(prometheus::Registry& registry);

  prometheus::Family<prometheus::Histogram>& stage_duration_seconds;  // stage
  prometheus::Family<prometheus::Histogram>& denoise_step_seconds;    // stage
  prometheus::Family<prometheus::Gauge>& model_load_seconds;          // phase
  // op: CollectiveName; axis: MeshAxisName, of those of the mesh that have more than one rank. Of all ranks that are
  // threads of this process.
  prometheus::Family<prometheus::Histogram>& collective_seconds;       // each call
  prometheus::Family<prometheus::Histogram>& collective_wait_seconds;  // of it, until the slowest rank had come
  prometheus::Family<prometheus::Counter>& collective_bytes_total;     // sent
  // Each run of a rank: how long it waited in that stage for slower ones.
  prometheus::Family<prometheus::Histogram>& rank_skew_seconds;  // stage
  // Of the last run's denoising, the share in which the rank's device had nothing to do.
  prometheus::Family<prometheus::Gauge>& device_idle_ratio;  // rank
  prometheus::Family<prometheus::Gauge>& peak_bytes;         // stage
  prometheus::Histogram& artifact_upload_seconds;            // ArtifactStore::Put
  // Of lora_folder, state: "listed", "refused", "awaited" (new, or there are too many).
  prometheus::Family<prometheus::Gauge>& lora_files;
  // Of the swaps of LoRAs: how long each took, which files it found in memory, and what lies there now.
  prometheus::Histogram& lora_swap_seconds;
  prometheus::Counter& lora_cache_hits_total;
  prometheus::Counter& lora_cache_misses_total;
  prometheus::Gauge& lora_cache_bytes;
};

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_METRICS_H_
