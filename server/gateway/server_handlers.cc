#include <utility>

#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "server/gateway/handlers.h"
#include "server/gateway/openapi.h"
#include "server/gateway/page_handler.h"
#include "server/gateway/video_body.h"

namespace kinora {
namespace {

constexpr char kText[] = "text/plain; charset=utf-8";

// Ready if one frontend is.
class Readiness {
 public:
  Readiness(std::shared_ptr<HttpExchange> exchange, size_t frontends)
      : exchange_(std::move(exchange)), awaited_(frontends) {}

  void Add(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    ready_ |= status.ok();
    if (!status.ok()) reasons_.emplace_back(status.message());
    if (--awaited_ > 0) return;
    exchange_->Reply({.status = ready_ ? 200 : 503,
                      .fields = {{"Content-Type", kText}},
                      .body = ready_ ? "ok\n" : absl::StrCat(absl::StrJoin(reasons_, "; "), "\n")});
  }

 private:
  const std::shared_ptr<HttpExchange> exchange_;
  absl::Mutex mu_;
  size_t awaited_ ABSL_GUARDED_BY(mu_);
  bool ready_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::string> reasons_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

void ListModels(HandlerContext& context, const RoutedRequest& request) {
  context.frontends.ListModels(
      request.caller, [exchange = request.exchange](const absl::StatusOr<v1::ListModelsResponse>& models) {
        exchange->Reply(models.ok() ? JsonReply(200, ModelListBody(*models)) : ErrorReply(models.status()));
      });
}

void GetOpenApi(HandlerContext&, const RoutedRequest& request) {
  HttpReply reply = JsonReply(200, std::string(OpenApiDocument()));
  reply.fields.push_back({"Cache-Control", "public, max-age=300"});
  request.exchange->Reply(std::move(reply));
}

void GetLive(HandlerContext&, const RoutedRequest& request) {
  request.exchange->Reply({.status = 200, .fields = {{"Content-Type", kText}}, .body = "ok\n"});
}

void GetReady(HandlerContext& context, const RoutedRequest& request) {
  const auto readiness = std::make_shared<Readiness>(request.exchange, context.frontends.all().size());
  for (const auto& frontend : context.frontends.all()) {
    frontend->CheckReady([readiness](const absl::Status& status) { readiness->Add(status); });
  }
}

void GetMetrics(HandlerContext& context, const RoutedRequest& request) {
  request.exchange->Reply({.status = 200,
                           .fields = {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}},
                           .body = context.metrics_text()});
}

std::vector<Route> MakeRoutes(HandlerContext& context) {
  const auto to = [&context](void (*handler)(HandlerContext&, const RoutedRequest&)) {
    return [&context, handler](const RoutedRequest& request) { handler(context, request); };
  };
  const auto create = [&context](CreateKind kind) {
    return [&context, kind](const RoutedRequest& request) { Create(context, kind, request); };
  };
  std::vector<Route> routes = {
      {"POST", "/v1/videos", {}, create(CreateKind::kVideo)},
      {"GET", "/v1/videos", {"after", "limit", "order", "state", "text"}, to(ListVideos)},
      {"GET", "/v1/videos/{id}", {}, to(GetVideo)},
      {"DELETE", "/v1/videos/{id}", {}, to(DeleteVideo)},
      {"GET", "/v1/videos/{id}/content", {"variant", "output_index", "link"}, to(GetContent)},
      {"POST", "/v1/videos/{id}/link", {}, to(MakeLink)},
      {"GET", "/v1/videos/{id}/events", {"after"}, to(GetEvents)},
      {"POST", "/v1/videos/{id}/cancel", {}, to(CancelVideo)},
      {"POST", "/v1/audio/generate", {}, create(CreateKind::kAudio)},
      {"POST", "/v1/estimates", {}, create(CreateKind::kEstimate)},
      {"GET", "/v1/models", {}, to(ListModels)},
      {"GET", "/v1/groups", {}, to(ListGroups)},
      {"GET", "/openapi.json", {}, to(GetOpenApi)},
      {"GET", "/livez", {}, to(GetLive)},
      {"GET", "/readyz", {}, to(GetReady)},
      {"GET", "/metrics", {}, to(GetMetrics)},
  };
  for (Route& route : PageRoutes()) routes.push_back(std::move(route));
  return routes;
}

}  // namespace kinora
