// Lists the jobs of all frontends as one list. A job that several of them list, because they share a store, is listed
// once.
#ifndef KINORA_SERVER_GATEWAY_VIDEO_WALK_H_
#define KINORA_SERVER_GATEWAY_VIDEO_WALK_H_

#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/gateway/frontends.h"

namespace kinora {

struct VideoListing {
  std::string after;  // the job before the first; "": from the beginning
  bool ascending = false;
  std::string text;                      // as ListVideosRequest.text
  std::vector<v1::Video::State> states;  // as ListVideosRequest.states
  int limit = 20;
};

struct VideoPage {
  std::vector<v1::Video> videos;
  bool has_more = false;
};

class VideoWalk : public std::enable_shared_from_this<VideoWalk> {
 public:
  using OnPage = std::function<void(absl::StatusOr<VideoPage>)>;

  // Calls back once, with the first error of a frontend if there is one: a list without the jobs of one of them would
  // look complete.
  static void Start(Frontends& frontends, const Caller& caller, const CurrentCallPtr& call, VideoListing listing,
                    OnPage on_page);

 private:
  struct Source {
    FrontendClient* frontend = nullptr;
    v1::ListVideosRequest next;
    bool ended = false;
    std::deque<v1::Video> videos;  // not yet taken
  };

  VideoWalk(Caller caller, CurrentCallPtr call, VideoListing listing, OnPage on_page)
      : caller_(std::move(caller)),
        call_(std::move(call)),
        listing_(std::move(listing)),
        on_page_(std::move(on_page)) {}
  void Begin(const std::vector<FrontendClient*>& frontends, FrontendClient* owner);
  void Run();
  void Fetch(Source& source);
  void Take(Source& source, v1::ListVideosResponse listed);
  bool ComesBefore(const v1::Video& a, const v1::Video& b) const;

  const Caller caller_;
  const CurrentCallPtr call_;
  const VideoListing listing_;
  const OnPage on_page_;
  std::vector<Source> sources_;
  v1::Video after_;  // with several frontends: the job `listing_.after`
  VideoPage page_;
  std::set<std::string> listed_;  // in page_
};

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_VIDEO_WALK_H_
