// Every metric of the frontend and of a worker, except kinora_build_info (build_version.h) and ProcessMetrics(). The
// comments list the label values, which are bounded. Series whose labels are known at startup exist from startup, at 0.
// A process creates the struct that it fills and passes the page's text to its HttpPages.
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
  std::string Text() const;  // Prometheus text format, sorted: registered metrics and ProcessMetrics()

 private:
  prometheus::Registry registry_;
};

// Bucket bounds in seconds: requests 0.5…86,400 (a day), stages 0.01…86,400, steps 0.01…3600, collectives
// 1e-5…60, LoRA swaps 0.001…180.
const prometheus::Histogram::BucketBoundaries& RequestBuckets();
const prometheus::Histogram::BucketBoundaries& StageBuckets();
const prometheus::Histogram::BucketBoundaries& StepBuckets();
const prometheus::Histogram::BucketBoundaries& CollectiveBuckets();
const prometheus::Histogram::BucketBoundaries& SwapBuckets();

struct FrontendMetrics {
  explicit FrontendMetrics(prometheus::Registry& registry);

  // Ended jobs, and requests rejected before they became a job. model: the id of a known model, otherwise "unknown";
  // recipe: the enum's name; code: the gRPC code's name (OK, CANCELLED, …).
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
  prometheus::Gauge& inputs;       // completely stored
  prometheus::Gauge& input_bytes;  // bytes of the quota in use
  prometheus::Counter& uploaded_bytes_total;
  prometheus::Family<prometheus::Gauge>& connections;  // field: "address", "admin_address", "join_address"
  prometheus::Family<prometheus::Counter>& connections_refused_total;  // field; reason: RejectReasonName
  prometheus::Counter& joins_unauthenticated_total;                    // at join_address, no valid token or certificate
  prometheus::Histogram& cancel_latency_seconds;                       // CancelVideo of a running job → CANCELLED
  prometheus::Family<prometheus::Gauge>& group_state;  // group, state: 1 for the present state, 0 for the others
  prometheus::Family<prometheus::Counter>& group_restarts_total;  // reason
  prometheus::Family<prometheus::Counter>& s3_requests_total;  // operation: "GetObject", …; outcome: bucket_home.cc
  prometheus::Family<prometheus::Histogram>& s3_request_seconds;  // operation
  prometheus::Counter& resume_points_accepted_total;              // and recorded
  // Runs that were offered a resume point. outcome: "resumed", "began_anew", "file_lost".
  prometheus::Family<prometheus::Counter>& resumed_runs_total;
  prometheus::Counter& preemptions_total;
  prometheus::Counter& artifact_bytes_total;        // of COMPLETED jobs
  prometheus::Counter& device_seconds_total;        // Usage.device_seconds, all jobs
  prometheus::Gauge& artifacts_without_job;         // folders found at startup
  prometheus::Gauge& job_store_unwritable_seconds;  // how long commits have failed; 0: the last one succeeded
  prometheus::Counter& leases_lost_total;           // runs stopped because their lease was over, or about to be
  // These describe a PostgreSQL database, and have no series with another store.
  prometheus::Family<prometheus::Gauge>& database_calls;  // that wait or run
  prometheus::Family<prometheus::Gauge>& database_dead_rows;
  prometheus::Family<prometheus::Gauge>& database_oldest_transaction_seconds;
};

struct WorkerMetrics {
  explicit WorkerMetrics(prometheus::Registry& registry);

  prometheus::Family<prometheus::Histogram>& stage_duration_seconds;  // stage
  prometheus::Family<prometheus::Histogram>& denoise_step_seconds;    // stage
  prometheus::Family<prometheus::Gauge>& model_load_seconds;          // phase
  // op: CollectiveName; axis: MeshAxisName of an axis with more than one rank. They cover all ranks that are threads of
  // this process.
  prometheus::Family<prometheus::Histogram>& collective_seconds;       // duration of each call
  prometheus::Family<prometheus::Histogram>& collective_wait_seconds;  // part of it until the slowest rank arrived
  prometheus::Family<prometheus::Counter>& collective_bytes_total;     // bytes sent
  // Observed once per run and rank: how long the rank waited for slower ranks in the stage.
  prometheus::Family<prometheus::Histogram>& rank_skew_seconds;  // stage
  // Share of the last run's denoising in which the rank's device was idle.
  prometheus::Family<prometheus::Gauge>& device_idle_ratio;  // rank
  // Denoising steps of this process's ranks that ran without a graph. stage; reason: kGraphMissNames.
  prometheus::Family<prometheus::Counter>& graph_misses_total;
  prometheus::Family<prometheus::Gauge>& peak_bytes;  // stage
  prometheus::Histogram& artifact_upload_seconds;     // ArtifactStore::Put
  // Resume points. outcome: "stored", "failed". part: "take" (the run waits), "store" (it does not).
  prometheus::Family<prometheus::Counter>& resume_points_total;
  prometheus::Family<prometheus::Histogram>& resume_point_seconds;
  prometheus::Counter& resume_point_bytes_total;
  // Files in lora_folder. state: "listed", "refused", "awaited" (new, or there are too many).
  prometheus::Family<prometheus::Gauge>& lora_files;
  // LoRA swaps: the duration of each, LoRAs found in memory or read from files, and bytes in memory now.
  prometheus::Histogram& lora_swap_seconds;
  prometheus::Counter& lora_cache_hits_total;
  prometheus::Counter& lora_cache_misses_total;
  prometheus::Gauge& lora_cache_bytes;
  prometheus::Family<prometheus::Gauge>& clean_weight_bytes;  // memory: "device", "host"
};

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_METRICS_H_
