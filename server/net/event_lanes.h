// Several event loops that share work which blocks: what must stay in order takes one lane.
#ifndef KINORA_SERVER_NET_EVENT_LANES_H_
#define KINORA_SERVER_NET_EVENT_LANES_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "server/net/event_loop.h"

namespace kinora {

class EventLanes {
 public:
  EventLanes(Clock& clock, int lanes) {
    lanes_.reserve(lanes);
    for (int i = 0; i < lanes; ++i) lanes_.push_back(std::make_unique<EventLoop>(clock));
  }

  size_t size() const { return lanes_.size(); }
  EventLoop& Next() { return *lanes_[next_++ % lanes_.size()]; }  // in turn
  // The index of the lane of everything about `key`.
  size_t IndexOf(const std::string& key) const { return std::hash<std::string>()(key) % lanes_.size(); }
  EventLoop& At(size_t index) { return *lanes_[index]; }
  void Stop() {
    for (const auto& lane : lanes_) lane->Stop();
  }

 private:
  std::vector<std::unique_ptr<EventLoop>> lanes_;
  std::atomic<size_t> next_ = 0;
};

}  // namespace kinora

#endif  // KINORA_SERVER_NET_EVENT_LANES_H_
