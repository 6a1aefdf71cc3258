// Metrics of kinora-gateway. The comments list the label values, which are bounded.
#ifndef KINORA_SERVER_GATEWAY_GATEWAY_METRICS_H_
#define KINORA_SERVER_GATEWAY_GATEWAY_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <string>

namespace kinora {

struct GatewayMetrics {
  explicit GatewayMetrics(prometheus::Registry& registry);

  void ObserveSeconds(const std::string& route, double seconds);

  // route: a path of the API with {id}, or "other"; code: the status.
  prometheus::Family<prometheus::Counter>& http_requests_total;
  prometheus::Family<prometheus::Histogram>& http_request_seconds;  // route; until the reply is sent, 1 ms … 60 s
  prometheus::Gauge& http_connections;
  // reason: "full", "client_full", "rate", "host", "origin", "malformed", "slow"
  prometheus::Family<prometheus::Counter>& http_rejected_total;
  prometheus::Counter& http_received_body_bytes_total;
  prometheus::Counter& http_sent_bytes_total;
  prometheus::Gauge& event_streams;      // open GET /v1/videos/{id}/events
  prometheus::Gauge& body_memory_bytes;  // of --max-body-memory-bytes
  prometheus::Gauge& scratch_bytes;      // of --max-scratch-bytes
  // frontend: an address of --frontend. 1 while there is a connection to it, otherwise 0.
  prometheus::Family<prometheus::Gauge>& frontend_connected;
};

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_GATEWAY_METRICS_H_
