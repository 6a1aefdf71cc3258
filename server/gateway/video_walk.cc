#include "server/gateway/video_walk.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace kinora {

void VideoWalk::Start(Frontends& frontends, const Caller& caller, const CurrentCallPtr& call, VideoListing listing,
                      OnPage on_page) {
  const std::string after = listing.after;
  const std::shared_ptr<VideoWalk> walk(new VideoWalk(caller, call, std::move(listing), std::move(on_page)));
  std::vector<FrontendClient*> all;
  for (const auto& frontend : frontends.all()) all.push_back(frontend.get());
  if (after.empty() || all.size() == 1) return walk->Begin(all, all.front());
  frontends.Find(caller, after, call, [walk, all, after](absl::StatusOr<FrontendClient*> owner) {
    if (!owner.ok()) return walk->on_page_(owner.status());
    walk->call_->Set(
        (*owner)->GetVideo(walk->caller_, after, [walk, all, owner = *owner](absl::StatusOr<v1::Video> video) {
          if (!video.ok()) return walk->on_page_(video.status());
          walk->after_ = *std::move(video);
          walk->Begin(all, owner);
        }));
  });
}

void VideoWalk::Begin(const std::vector<FrontendClient*>& frontends, FrontendClient* owner) {
  for (FrontendClient* frontend : frontends) {
    Source& source = sources_.emplace_back();
    source.frontend = frontend;
    source.next.set_page_size(listing_.limit + 1);
    source.next.set_ascending(listing_.ascending);
    source.next.set_text(listing_.text);
    source.next.mutable_states()->Add(listing_.states.begin(), listing_.states.end());
    if (frontend == owner) source.next.set_after_id(listing_.after);
  }
  Run();
}

bool VideoWalk::ComesBefore(const v1::Video& a, const v1::Video& b) const {
  const auto key = [](const v1::Video& video) {
    return std::tuple(video.create_time().seconds(), video.create_time().nanos(), video.id());
  };
  return listing_.ascending ? key(a) < key(b) : key(b) < key(a);
}

// Takes the foremost job until the page is full. Pauses to fetch while a frontend has no job to compare.
void VideoWalk::Run() {
  while (true) {
    Source* first = nullptr;
    for (Source& source : sources_) {
      if (source.videos.empty() && !source.ended) return Fetch(source);
      if (source.videos.empty()) continue;
      if (first == nullptr || ComesBefore(source.videos.front(), first->videos.front())) first = &source;
    }
    if (first != nullptr &&
        listed_.contains(
            first->videos.front().id())) {  // by another frontend, which shares the store of jobs with this one
      first->videos.pop_front();
      continue;
    }
    page_.has_more = first != nullptr;
    if (first == nullptr || static_cast<int>(page_.videos.size()) == listing_.limit) return on_page_(std::move(page_));
    listed_.insert(first->videos.front().id());
    page_.videos.push_back(std::move(first->videos.front()));
    first->videos.pop_front();
  }
}

void VideoWalk::Fetch(Source& source) {
  call_->Set(source.frontend->ListVideos(
      caller_, source.next, [self = shared_from_this(), &source](absl::StatusOr<v1::ListVideosResponse> listed) {
        if (!listed.ok()) return self->on_page_(listed.status());
        self->Take(source, *std::move(listed));
        self->Run();
      }));
}

void VideoWalk::Take(Source& source, v1::ListVideosResponse listed) {
  source.ended = listed.next_page_token().empty();
  source.next.set_page_token(listed.next_page_token());
  source.next.clear_after_id();
  for (v1::Video& video : *listed.mutable_videos()) {
    // Frontends that do not have `after` list from their beginning.
    if (after_.id().empty() || ComesBefore(after_, video)) source.videos.push_back(std::move(video));
  }
}

}  // namespace kinora
