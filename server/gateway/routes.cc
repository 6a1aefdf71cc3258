#include "server/gateway/routes.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "server/common/status_details.h"
#include "server/gateway/video_body.h"

namespace kinora {
namespace {

constexpr size_t kLongestId = 64;
constexpr size_t kLongestToken = 4096;
constexpr char kIdCharacters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";

// Returns the {id} ("" if the route has none) if the path is of the route.
std::optional<std::string> Match(const std::string& route, const std::string& path) {
  const std::vector<std::string> wanted = absl::StrSplit(route, '/'), given = absl::StrSplit(path, '/');
  if (wanted.size() != given.size()) return std::nullopt;
  std::string id;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] != "{id}") {
      if (wanted[i] != given[i]) return std::nullopt;
      continue;
    }
    id = given[i];
    if (id.empty() || id.size() > kLongestId || id.find_first_not_of(kIdCharacters) != std::string::npos) {
      return std::nullopt;
    }
  }
  return id;
}

bool MayBeMetadata(const std::string& value) {
  const auto printable = [](char c) { return c >= ' ' && c <= '~'; };
  return value.size() <= kLongestToken && std::all_of(value.begin(), value.end(), printable);
}

void Start(const Route& route, std::string id, std::shared_ptr<HttpExchange> exchange) {
  RoutedRequest request{.exchange = std::move(exchange), .id = std::move(id), .call = std::make_shared<CurrentCall>()};
  request.exchange->SetRoute(route.path);
  auto query = ParseQuery(request.exchange->head().query);
  if (!query.ok()) {
    return request.exchange->Reply(ErrorReply(InvalidField("query", std::string(query.status().message()))));
  }
  for (const auto& [name, value] : *query) {
    if (std::count(route.query.begin(), route.query.end(), name) > 0) continue;
    const std::string known = route.query.empty() ? "there are none" : absl::StrJoin(route.query, ", ");
    return request.exchange->Reply(
        ErrorReply(InvalidField(name, absl::StrCat("is not a parameter of this path; known: ", known))));
  }
  request.query = *std::move(query);
  const std::string* authorization = request.exchange->head().Find("authorization");
  request.caller.client = request.exchange->client();
  if (authorization != nullptr) request.caller.authorization = *authorization;
  if (!MayBeMetadata(request.caller.authorization)) {
    return request.exchange->Reply(ErrorReply(absl::UnauthenticatedError("Authorization must be: Bearer TOKEN")));
  }
  request.exchange->SetOnLeft([call = request.call] { call->Cancel(); });
  route.handler(request);
}

}  // namespace

HttpReply JsonReply(int status, std::string body) {
  return {.status = status, .fields = {{"Content-Type", "application/json"}}, .body = std::move(body)};
}

HttpReply VideoReply(const v1::Video& video) {
  HttpReply reply = JsonReply(200, VideoBody(video));
  std::string poll = PollMilliseconds(video);
  if (!poll.empty()) reply.fields.push_back({"openai-poll-after-ms", std::move(poll)});
  return reply;
}

HttpReply ReplyOf(HttpError error) {
  HttpReply reply = JsonReply(error.status, std::move(error.body));
  for (auto& [name, value] : error.headers) reply.fields.push_back({std::move(name), std::move(value)});
  return reply;
}

HttpReply ErrorReply(const absl::Status& status) { return ReplyOf(ToHttpError(status)); }

HttpReply ProblemReply(const HttpProblem& problem) {
  return ReplyOf(MakeHttpError(problem.status, problem.code, problem.message));
}

void Router::Handle(std::shared_ptr<HttpExchange> exchange) const {
  const HttpRequestHead& head = exchange->head();
  std::set<std::string> allowed;
  for (const Route& route : routes_) {
    const auto id = Match(route.path, head.path);
    if (!id) continue;
    const bool right = route.method == head.method || (route.method == "GET" && head.method == "HEAD");
    if (right) return Start(route, *id, std::move(exchange));
    allowed.insert(route.method);
    if (route.method == "GET") allowed.insert("HEAD");
  }
  if (allowed.empty()) {
    return exchange->Reply(ProblemReply({404, "not_found", "no such path; /openapi.json lists the paths"}));
  }
  allowed.insert("OPTIONS");
  const std::string allow = absl::StrJoin(allowed, ", ");
  HttpReply reply = {.status = 204};
  if (head.method != "OPTIONS") {
    reply = ProblemReply({405, "method_not_allowed", absl::StrCat("this path takes ", allow)});
  }
  reply.fields.push_back({"Allow", allow});
  exchange->Reply(std::move(reply));
}

}  // namespace kinora
