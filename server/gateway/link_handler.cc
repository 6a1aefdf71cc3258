// POST /v1/videos/{id}/link: a link to an artifact that a browser can play.
#include <array>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/base/status_macros.h"
#include "server/common/status_details.h"
#include "server/gateway/error_body.h"
#include "server/gateway/field_reader.h"
#include "server/gateway/handlers.h"
#include "server/gateway/request_fields.h"
#include "server/gateway/video_body.h"

namespace kinora {
namespace {

constexpr size_t kMaxBodyBytes = 4096;
constexpr std::array<std::string_view, 2> kFields = {"variant", "bucket_seconds"};
constexpr int64_t kMostBucketSeconds = 604'800;  // GetVideoRequest.link_seconds

struct Asked {
  std::string variant = std::string(kDefaultVariant);
  int64_t bucket_seconds = 0;  // 0: a link to this gateway
};

// body: "": no fields.
absl::StatusOr<Asked> AskedIn(const std::string& body) {
  Asked asked;
  if (body.empty()) return asked;
  KINORA_ASSIGN_OR_RETURN(const RequestFields fields, RequestFields::FromJson(body));
  FieldViolations wrong;
  FieldReader reader(fields.values(), "", wrong);
  reader.RejectOthers(kFields);
  const std::string variant = reader.Text("variant").value_or("");
  if (!variant.empty()) asked.variant = variant;
  asked.bucket_seconds = reader.Integer("bucket_seconds", 1, kMostBucketSeconds).value_or(0);
  if (!wrong.empty()) return InvalidFields(wrong);
  return asked;
}

// Calls `then` with the body, or replies.
void ReadSmallBody(std::shared_ptr<HttpExchange> exchange, std::string body, std::function<void(std::string)> then) {
  HttpExchange& source = *exchange;
  source.ReadBody(
      [exchange = std::move(exchange), body = std::move(body), then = std::move(then)](const std::string& piece) {
        if (piece.empty()) return then(body);
        if (body.size() + piece.size() > kMaxBodyBytes) {
          return exchange->Reply(
              ProblemReply({413, "body_too_large", absl::StrCat("the body has more than ", kMaxBodyBytes, " bytes")}));
        }
        ReadSmallBody(exchange, body + piece, then);
      });
}

void OnVideo(const LinkSealer& links, const RoutedRequest& request, const v1::Video& video, const Asked& asked) {
  const std::string& variant = asked.variant;
  auto chosen = ChooseContent(video, variant);
  if (auto* error = std::get_if<HttpError>(&chosen)) return request.exchange->Reply(ReplyOf(std::move(*error)));
  if (asked.bucket_seconds > 0) {
    const v1::Artifact& artifact = video.artifacts(std::get<int>(chosen));
    if (artifact.url().empty()) {
      return request.exchange->Reply(
          ErrorReply(absl::UnimplementedError("bucket_seconds: the frontend is older than this gateway")));
    }
    return request.exchange->Reply(
        JsonReply(200, LinkBody(artifact.url(), absl::FromUnixSeconds(artifact.url_expire_time().seconds()))));
  }
  const VideoLink link = links.Seal({request.id, variant}, request.caller.authorization);
  const std::string choice = variant == kDefaultVariant ? "" : absl::StrCat("variant=", variant, "&");
  const std::string url = absl::StrCat("/v1/videos/", request.id, "/content?", choice, "link=", link.text);
  request.exchange->Reply(JsonReply(200, LinkBody(url, link.expiry)));
}

}  // namespace

void MakeLink(HandlerContext& context, const RoutedRequest& request) {
  ReadSmallBody(request.exchange, "", [&context, request](const std::string& body) {
    const absl::StatusOr<Asked> asked = AskedIn(body);
    if (!asked.ok()) return request.exchange->Reply(ErrorReply(asked.status()));
    const auto on_found = [&context, request, asked = *asked](absl::StatusOr<FrontendClient*> found) {
      if (!found.ok()) return request.exchange->Reply(ErrorReply(found.status()));
      const auto on_video = [&context, request, asked](const absl::StatusOr<v1::Video>& video) {
        if (!video.ok()) return request.exchange->Reply(ErrorReply(video.status()));
        OnVideo(context.links, request, *video, asked);
      };
      request.call->Set((*found)->GetVideo(request.caller, request.id, on_video, asked.bucket_seconds));
    };
    context.frontends.Find(request.caller, request.id, request.call, on_found);
  });
}

}  // namespace kinora
