#include "server/common/metrics.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/request/stage.h"
#include "server/common/process_metrics.h"

namespace kinora {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;
using prometheus::Registry;

auto& CounterFamily(Registry& registry, const char* name, const char* help) {
  return BuildCounter().Name(name).Help(help).Register(registry);
}
auto& GaugeFamily(Registry& registry, const char* name, const char* help) {
  return BuildGauge().Name(name).Help(help).Register(registry);
}
auto& HistogramFamily(Registry& registry, const char* name, const char* help) {
  return BuildHistogram().Name(name).Help(help).Register(registry);
}

// The registry is a hash table; sorting keeps the order of a page stable between readings.
void Sort(std::vector<prometheus::MetricFamily>& families) {
  std::sort(families.begin(), families.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  for (prometheus::MetricFamily& family : families) {
    std::sort(family.metric.begin(), family.metric.end(),
              [](const auto& a, const auto& b) { return a.label < b.label; });
  }
}

}  // namespace

std::string MetricsPage::Text() const {
  std::vector<prometheus::MetricFamily> families = registry_.Collect();
  for (prometheus::MetricFamily& family : ProcessMetrics()) families.push_back(std::move(family));
  Sort(families);
  return prometheus::TextSerializer().Serialize(families);
}

const prometheus::Histogram::BucketBoundaries& RequestBuckets() {
  static const auto* bounds = new prometheus::Histogram::BucketBoundaries{
      0.5, 1, 2, 5, 10, 20, 45, 90, 180, 300, 600, 1800, 3600, 7200, 14400, 28800, 57600, 86400};
  return *bounds;
}

const prometheus::Histogram::BucketBoundaries& StageBuckets() {
  static const auto* bounds = new prometheus::Histogram::BucketBoundaries{
      0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 180, 600, 1800, 3600, 7200, 14400, 28800, 57600, 86400};
  return *bounds;
}

const prometheus::Histogram::BucketBoundaries& StepBuckets() {
  static const auto* bounds = new prometheus::Histogram::BucketBoundaries{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1,    2,
                                                                          5,    10,   20,   60,  180, 600, 1800, 3600};
  return *bounds;
}

const prometheus::Histogram::BucketBoundaries& CollectiveBuckets() {
  static const auto* bounds = new prometheus::Histogram::BucketBoundaries{1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01,
                                                                          0.03, 0.1,  0.3,  1,    3,    10,   60};
  return *bounds;
}

const prometheus::Histogram::BucketBoundaries& SwapBuckets() {
  static const auto* bounds = new prometheus::Histogram::BucketBoundaries{
      0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 180};
  return *bounds;
}

FrontendMetrics::FrontendMetrics(Registry& registry)
    : requests_total(
          CounterFamily(registry, "kinora_requests_total", "Ended jobs and rejected requests, by gRPC code")),
      admission_rejected_total(
          CounterFamily(registry, "kinora_admission_rejected_total", "Requests rejected before they became a job")),
      queue_depth(GaugeFamily(registry, "kinora_queue_depth", "Jobs waiting for a worker group")),
      queue_seconds(GaugeFamily(registry, "kinora_queue_seconds",
                                "Estimated time that one worker group would need for the waiting jobs")),
      queue_wait_seconds(HistogramFamily(registry, "kinora_queue_wait_seconds", "Time from QUEUED to RUNNING")
                             .Add({}, RequestBuckets())),
      request_duration_seconds(
          HistogramFamily(registry, "kinora_request_duration_seconds", "Time from creation to end of completed jobs")),
      jobs_running(GaugeFamily(registry, "kinora_jobs_running", "Jobs assigned to a worker group").Add({})),
      watchers(GaugeFamily(registry, "kinora_watchers", "Open event streams").Add({})),
      downloads(GaugeFamily(registry, "kinora_downloads", "Open downloads").Add({})),
      uploads(GaugeFamily(registry, "kinora_uploads", "Open uploads").Add({})),
      inputs(GaugeFamily(registry, "kinora_inputs", "Completely stored inputs").Add({})),
      input_bytes(GaugeFamily(registry, "kinora_input_bytes", "Bytes used of the input quota").Add({})),
      uploaded_bytes_total(CounterFamily(registry, "kinora_uploaded_bytes_total", "Bytes of inputs received").Add({})),
      connections(GaugeFamily(registry, "kinora_connections", "Open connections")),
      connections_refused_total(
          CounterFamily(registry, "kinora_connections_refused_total", "Connections closed at once or cut off")),
      joins_unauthenticated_total(CounterFamily(registry, "kinora_joins_unauthenticated_total",
                                                "Workers rejected for lack of a valid token or certificate")
                                      .Add({})),
      cancel_latency_seconds(
          HistogramFamily(registry, "kinora_cancel_latency_seconds", "Time from the cancel of a running job to its end")
              .Add({}, StepBuckets())),
      group_state(GaugeFamily(registry, "kinora_group_state", "1 for the state that a worker group is in")),
      group_restarts_total(CounterFamily(registry, "kinora_group_restarts_total", "Restarts of worker groups")),
      s3_requests_total(CounterFamily(registry, "kinora_s3_requests_total", "Requests to the bucket of artifacts")),
      s3_request_seconds(
          HistogramFamily(registry, "kinora_s3_request_seconds", "Time of one request to the bucket of artifacts")),
      resume_points_accepted_total(CounterFamily(registry, "kinora_resume_points_accepted_total",
                                                 "Stored states of runs, from which a job can continue")
                                       .Add({})),
      resumed_runs_total(CounterFamily(registry, "kinora_resumed_runs_total",
                                       "Runs of jobs with a resume point, by what became of it")),
      preemptions_total(
          CounterFamily(registry, "kinora_preemptions_total", "Runs interrupted for jobs of a higher priority")
              .Add({})),
      artifact_bytes_total(
          CounterFamily(registry, "kinora_artifact_bytes_total", "Bytes of completed artifacts").Add({})),
      device_seconds_total(
          CounterFamily(registry, "kinora_device_seconds_total", "Device time of ended jobs, over all ranks").Add({})),
      artifacts_without_job(GaugeFamily(registry, "kinora_artifacts_without_job",
                                        "Artifact folders found at startup without a job in the store")
                                .Add({})),
      job_store_unwritable_seconds(
          GaugeFamily(registry, "kinora_job_store_unwritable_seconds", "How long the job store has been unwritable")
              .Add({})),
      leases_lost_total(CounterFamily(registry, "kinora_leases_lost_total",
                                      "Runs stopped because this frontend could not renew their lease in time")
                            .Add({})),
      database_calls(GaugeFamily(registry, "kinora_database_calls", "Calls to the database that wait or run")),
      database_dead_rows(GaugeFamily(registry, "kinora_database_dead_rows",
                                     "Rows of the database that are to be vacuumed, as it estimates them")),
      database_oldest_transaction_seconds(
          GaugeFamily(registry, "kinora_database_oldest_transaction_seconds",
                      "Age of the oldest open transaction in the database that this frontend may see")) {
  queue_depth.Add({{"priority", "0"}});
  for (const char* outcome : {"resumed", "began_anew", "file_lost"}) resumed_runs_total.Add({{"outcome", outcome}});
}

WorkerMetrics::WorkerMetrics(Registry& registry)
    : stage_duration_seconds(
          HistogramFamily(registry, "kinora_stage_duration_seconds", "Time of a stage (wall time on the CPU)")),
      denoise_step_seconds(
          HistogramFamily(registry, "kinora_denoise_step_seconds", "Time of a denoising step (wall time on the CPU)")),
      model_load_seconds(GaugeFamily(registry, "kinora_model_load_seconds", "Time to load the model, by phase")),
      collective_seconds(HistogramFamily(registry, "kinora_collective_seconds", "Time of a collective on a rank")),
      collective_wait_seconds(HistogramFamily(registry, "kinora_collective_wait_seconds",
                                              "Time in a collective until the slowest rank arrived")),
      collective_bytes_total(
          CounterFamily(registry, "kinora_collective_bytes_total", "Bytes that a rank sent in collectives")),
      rank_skew_seconds(HistogramFamily(registry, "kinora_rank_skew_seconds",
                                        "How long a rank waited for slower ranks in a stage of a run")),
      device_idle_ratio(GaugeFamily(registry, "kinora_device_idle_ratio",
                                    "Share of the last run's denoising in which a rank's device was idle")),
      graph_misses_total(
          CounterFamily(registry, "kinora_graph_misses_total", "Denoising steps that ran without a graph")),
      peak_bytes(GaugeFamily(registry, "kinora_vram_peak_bytes",
                             "Device memory of the last run: weights, workspaces and peak activations")),
      artifact_upload_seconds(HistogramFamily(registry, "kinora_artifact_upload_seconds", "Time to store an artifact")
                                  .Add({}, StepBuckets())),
      resume_points_total(
          CounterFamily(registry, "kinora_resume_points_total", "Resume points that were stored or could not be")),
      resume_point_seconds(HistogramFamily(registry, "kinora_resume_point_seconds",
                                           "Time to take a resume point from the device, and to store it")),
      resume_point_bytes_total(
          CounterFamily(registry, "kinora_resume_point_bytes_total", "Bytes of stored resume points").Add({})),
      lora_files(GaugeFamily(registry, "kinora_lora_files", "Files in lora_folder, by state")),
      lora_swap_seconds(
          HistogramFamily(registry, "kinora_lora_swap_seconds", "Time to change the LoRAs applied to the weights")
              .Add({}, SwapBuckets())),
      lora_cache_hits_total(
          CounterFamily(registry, "kinora_lora_cache_hits_total", "LoRAs found in memory during swaps").Add({})),
      lora_cache_misses_total(
          CounterFamily(registry, "kinora_lora_cache_misses_total", "LoRAs read from files during swaps").Add({})),
      lora_cache_bytes(GaugeFamily(registry, "kinora_lora_cache_bytes", "Memory used by cached LoRAs").Add({})),
      clean_weight_bytes(
          GaugeFamily(registry, "kinora_clean_weight_bytes", "Memory used by copies of weights without LoRAs")) {
  for (const char* outcome : {"stored", "failed"}) resume_points_total.Add({{"outcome", outcome}});
  for (const char* part : {"take", "store"}) resume_point_seconds.Add({{"part", part}}, StepBuckets());
  for (const auto& [stage, name] : kStages) {
    const std::map<std::string, std::string> labels = {{"stage", std::string(name)}};
    stage_duration_seconds.Add(labels, StageBuckets());
    if (stage.kind == StageKind::kDenoise) denoise_step_seconds.Add(labels, StepBuckets());
  }
}

}  // namespace kinora
