#include "server/gateway/gateway_metrics.h"

namespace kinora {
namespace {

prometheus::Counter& Counter(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add({});
}

prometheus::Gauge& Gauge(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
}

}  // namespace

GatewayMetrics::GatewayMetrics(prometheus::Registry& registry)
    : http_requests_total(prometheus::BuildCounter()
                              .Name("kinora_http_requests_total")
                              .Help("Answered requests, by route and status")
                              .Register(registry)),
      http_request_seconds(prometheus::BuildHistogram()
                               .Name("kinora_http_request_seconds")
                               .Help("Time from a request's head to the end of its reply")
                               .Register(registry)),
      http_connections(Gauge(registry, "kinora_http_connections", "Open connections")),
      http_rejected_total(prometheus::BuildCounter()
                              .Name("kinora_http_rejected_total")
                              .Help("Connections and requests rejected before a handler saw them, by reason")
                              .Register(registry)),
      http_received_body_bytes_total(
          Counter(registry, "kinora_http_received_body_bytes_total", "Bytes of request bodies")),
      http_sent_bytes_total(Counter(registry, "kinora_http_sent_bytes_total", "Bytes of replies")),
      event_streams(Gauge(registry, "kinora_http_event_streams", "Open streams of events")),
      body_memory_bytes(Gauge(registry, "kinora_http_body_memory_bytes", "Memory that bodies of open requests hold")),
      scratch_bytes(Gauge(registry, "kinora_http_scratch_bytes", "Bytes of files that are being uploaded or fetched")),
      frontend_connected(prometheus::BuildGauge()
                             .Name("kinora_http_frontend_connected")
                             .Help("Whether there is a connection to the frontend")
                             .Register(registry)) {
  for (const char* reason : {"full", "client_full", "rate", "host", "origin", "malformed", "slow"}) {
    http_rejected_total.Add({{"reason", reason}});
  }
}

void GatewayMetrics::ObserveSeconds(const std::string& route, double seconds) {
  static const prometheus::Histogram::BucketBoundaries kBounds = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2,
                                                                  0.5,   1,     2,     5,    10,   30,   60};
  http_request_seconds.Add({{"route", route}}, kBounds).Observe(seconds);
}

}  // namespace kinora
