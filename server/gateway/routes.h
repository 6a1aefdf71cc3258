// The routes of the API: which handler gets which request. Paths are fixed, so that no request names a file.
#ifndef KINORA_SERVER_GATEWAY_ROUTES_H_
#define KINORA_SERVER_GATEWAY_ROUTES_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/gateway/error_body.h"
#include "server/gateway/frontends.h"
#include "server/gateway/http_exchange.h"

namespace kinora {

struct RoutedRequest {
  std::shared_ptr<HttpExchange> exchange;
  std::string id;                            // in the path, for a route with {id}
  std::map<std::string, std::string> query;  // only names that the route has
  Caller caller;
  CurrentCallPtr call;  // cancelled when the client leaves

  bool is_head() const { return exchange->head().method == "HEAD"; }
};
using RouteHandler = std::function<void(const RoutedRequest& request)>;

struct Route {
  std::string method;  // GET also serves HEAD
  std::string path;    // "/v1/videos/{id}": {id} is 1 to 64 letters, digits, "-" and "_"
  std::vector<std::string> query;
  RouteHandler handler;
};

class Router {
 public:
  explicit Router(std::vector<Route> routes) : routes_(std::move(routes)) {}

  // Calls a handler, or replies: 404, 405 with Allow, 204 with Allow to OPTIONS, 422 for an unknown or malformed query,
  // 401 for an Authorization that no frontend could read.
  void Handle(std::shared_ptr<HttpExchange> exchange) const;

  const std::vector<Route>& routes() const { return routes_; }

 private:
  const std::vector<Route> routes_;
};

HttpReply JsonReply(int status, std::string body);
HttpReply VideoReply(const v1::Video& video);
HttpReply ReplyOf(HttpError error);
HttpReply ErrorReply(const absl::Status& status);  // status: not OK
HttpReply ProblemReply(const HttpProblem& problem);

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_ROUTES_H_
