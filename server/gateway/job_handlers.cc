#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "server/common/status_details.h"
#include "server/gateway/handlers.h"
#include "server/gateway/video_body.h"
#include "server/gateway/video_walk.h"

namespace kinora {
namespace {

constexpr int kDefaultLimit = 20, kMaxLimit = 100;

// Runs `task` with the frontend that has the job, or replies.
void AtFrontend(HandlerContext& context, const RoutedRequest& request, std::function<void(FrontendClient&)> task) {
  context.frontends.Find(request.caller, request.id, request.call,
                         [exchange = request.exchange, task = std::move(task)](absl::StatusOr<FrontendClient*> found) {
                           if (!found.ok()) return exchange->Reply(ErrorReply(found.status()));
                           task(**found);
                         });
}

OnReply<v1::Video> ReplyWithVideo(std::shared_ptr<HttpExchange> exchange) {
  return [exchange = std::move(exchange)](absl::StatusOr<v1::Video> video) {
    exchange->Reply(video.ok() ? VideoReply(*video) : ErrorReply(video.status()));
  };
}

// names: "queued,running"; "": all. Returns false if one is no state.
bool ReadStates(const std::string& names, std::vector<v1::Video::State>& states) {
  if (names.empty()) return true;
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(names, ','))) {
    v1::Video::State& state = states.emplace_back();
    const bool known = v1::Video::State_Parse(absl::AsciiStrToUpper(name), &state);
    if (!known || state == v1::Video::STATE_UNSPECIFIED || name != absl::AsciiStrToLower(name)) return false;
  }
  return true;
}

absl::StatusOr<VideoListing> ListingOf(const std::map<std::string, std::string>& query) {
  VideoListing listing{.limit = kDefaultLimit};
  FieldViolations wrong;
  for (const auto& [name, value] : query) {
    if (name == "after") listing.after = value;
    if (name == "text") listing.text = value;
    if (name == "order") {
      listing.ascending = value == "asc";
      if (value != "asc" && value != "desc") wrong.push_back({"order", "must be asc or desc"});
    }
    if (name == "state" && !ReadStates(value, listing.states)) {
      wrong.push_back({"state", "must be states of videos, separated by commas, such as queued,running"});
    }
    if (name != "limit") continue;
    const bool valid = absl::SimpleAtoi(value, &listing.limit) && listing.limit >= 1 && listing.limit <= kMaxLimit;
    if (!valid) wrong.push_back({"limit", "must be 1 to 100"});
  }
  if (!wrong.empty()) return InvalidFields(wrong);
  return listing;
}

}  // namespace

void GetVideo(HandlerContext& context, const RoutedRequest& request) {
  AtFrontend(context, request, [request](FrontendClient& frontend) {
    request.call->Set(frontend.GetVideo(request.caller, request.id, ReplyWithVideo(request.exchange)));
  });
}

void CancelVideo(HandlerContext& context, const RoutedRequest& request) {
  AtFrontend(context, request, [request](FrontendClient& frontend) {
    request.call->Set(frontend.CancelVideo(request.caller, request.id, ReplyWithVideo(request.exchange)));
  });
}

void DeleteVideo(HandlerContext& context, const RoutedRequest& request) {
  AtFrontend(context, request, [request](FrontendClient& frontend) {
    const auto on_reply = [exchange = request.exchange,
                           id = request.id](const absl::StatusOr<google::protobuf::Empty>& deleted) {
      exchange->Reply(deleted.ok() ? JsonReply(200, DeletedBody(id)) : ErrorReply(deleted.status()));
    };
    request.call->Set(frontend.DeleteVideo(request.caller, request.id, on_reply));
  });
}

void ListVideos(HandlerContext& context, const RoutedRequest& request) {
  absl::StatusOr<VideoListing> listing = ListingOf(request.query);
  if (!listing.ok()) return request.exchange->Reply(ErrorReply(listing.status()));
  VideoWalk::Start(context.frontends, request.caller, request.call, *std::move(listing),
                   [exchange = request.exchange](absl::StatusOr<VideoPage> page) {
                     exchange->Reply(page.ok() ? JsonReply(200, VideoListBody(page->videos, page->has_more))
                                               : ErrorReply(page.status()));
                   });
}

}  // namespace kinora
