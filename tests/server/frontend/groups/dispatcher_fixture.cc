#include "tests/server/frontend/groups/dispatcher_fixture.h"

namespace kinora {

v1::Video DispatcherTest::AwaitState(const JobId& id, State state, int times) {
  v1::Video found;
  const auto there = [&] {
    mu_.AssertHeld();
    int count = 0;
    for (const v1::VideoEvent& event : events_) {
      const v1::Video& video = event.has_terminal() ? event.terminal() : event.state();
      if (event.video_id() != id || video.state() != state) continue;
      found = video;
      ++count;
    }
    return count >= times;
  };
  absl::MutexLock lock(&mu_);
  KINORA_CHECK(mu_.AwaitWithTimeout(absl::Condition(&there), absl::Seconds(30)))
      << v1::Video::State_Name(state) << " did not come";
  return found;
}

}  // namespace kinora
