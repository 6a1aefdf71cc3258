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
constexpr std::array<std::string_view, 1> kFields = {"variant"};

// body: "": no fields.
absl::StatusOr<std::string> VariantOf(const std::string& body) {
  if (body.empty()) return std::string(kDefaultVariant);
  KINORA_ASSIGN_OR_RETURN(const RequestFields fields, RequestFields::FromJson(body));
  FieldViolations wrong;
  FieldReader reader(fields.values(), "", wrong);
  reader.RejectOthers(kFields);
  const std::string variant = reader.Text("variant").value_or("");
  if (!wrong.empty()) return InvalidFields(wrong);
  return variant.empty() ? std::string(kDefaultVariant) : variant;
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

void OnVideo(const LinkSealer& links, const RoutedRequest& request, const v1::Video& video,
             const std::string& variant) {
  auto chosen = ChooseContent(video, variant);
  if (auto* error = std::get_if<HttpError>(&chosen)) return request.exchange->Reply(ReplyOf(std::move(*error)));
  const VideoLink link = links.Seal({request.id, variant}, request.caller.authorization);
  const std::string choice = variant == kDefaultVariant ? "" : absl::StrCat("variant=", variant, "&");
  const std::string url = absl::StrCat("/v1/videos/", request.id, "/content?", choice, "link=", link.text);
  request.exchange->Reply(JsonReply(200, LinkBody(url, link.expiry)));
}

}  // namespace

void MakeLink(HandlerContext& context, const RoutedRequest& request) {
  ReadSmallBody(request.exchange, "", [&context, request](const std::string& body) {
    const absl::StatusOr<std::string> variant = VariantOf(body);
    if (!variant.ok()) return request.exchange->Reply(ErrorReply(variant.status()));
    const auto on_found = [&context, request, variant = *variant](absl::StatusOr<FrontendClient*> found) {
      if (!found.ok()) return request.exchange->Reply(ErrorReply(found.status()));
      const auto on_video = [&context, request, variant](const absl::StatusOr<v1::Video>& video) {
        if (!video.ok()) return request.exchange->Reply(ErrorReply(video.status()));
        OnVideo(context.links, request, *video, variant);
      };
      request.call->Set((*found)->GetVideo(request.caller, request.id, on_video));
    };
    context.frontends.Find(request.caller, request.id, request.call, on_found);
  });
}

}  // namespace kinora
