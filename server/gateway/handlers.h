// What the routes do. Handlers know exchanges and frontends, and nothing of sockets.
#ifndef KINORA_SERVER_GATEWAY_HANDLERS_H_
#define KINORA_SERVER_GATEWAY_HANDLERS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "server/gateway/byte_budget.h"
#include "server/gateway/frontends.h"
#include "server/gateway/gateway_metrics.h"
#include "server/gateway/input_fetcher.h"
#include "server/gateway/input_url.h"
#include "server/gateway/routes.h"
#include "server/gateway/video_link.h"

namespace kinora {

struct HandlerContext {  // outlives the handlers
  Frontends& frontends;
  const Frontends::List& admins;  // their Admin services; may be empty
  GatewayMetrics& metrics;
  std::function<std::string()> metrics_text;
  std::string scratch_folder;    // of uploads until they are complete
  int64_t max_upload_bytes = 0;  // of one file
  ByteBudget& body_memory;       // of bodies without their files
  ByteBudget& scratch_space;     // of files in scratch_folder
  const LinkSealer& links;
  std::vector<AllowedHost> url_hosts{};
  InputFetcher* fetcher = nullptr;  // null: url_hosts is empty
};

std::vector<Route> MakeRoutes(HandlerContext& context);

// The handlers of MakeRoutes, by file.
void GetVideo(HandlerContext& context, const RoutedRequest& request);  // job_handlers.cc
void ListVideos(HandlerContext& context, const RoutedRequest& request);
void CancelVideo(HandlerContext& context, const RoutedRequest& request);
void DeleteVideo(HandlerContext& context, const RoutedRequest& request);
void GetContent(HandlerContext& context, const RoutedRequest& request);  // content_handler.cc
void MakeLink(HandlerContext& context, const RoutedRequest& request);    // link_handler.cc
void GetEvents(HandlerContext& context, const RoutedRequest& request);   // event_handler.cc
enum class CreateKind { kVideo, kAudio, kEstimate };
void Create(HandlerContext& context, CreateKind kind, const RoutedRequest& request);  // create_handler.cc
void ListModels(HandlerContext& context, const RoutedRequest& request);               // server_handlers.cc
void ListGroups(HandlerContext& context, const RoutedRequest& request);               // groups_handler.cc
void GetOpenApi(HandlerContext& context, const RoutedRequest& request);
void GetLive(HandlerContext& context, const RoutedRequest& request);
void GetReady(HandlerContext& context, const RoutedRequest& request);
void GetMetrics(HandlerContext& context, const RoutedRequest& request);

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_HANDLERS_H_
