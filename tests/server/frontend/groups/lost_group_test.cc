// A group that is lost while the dispatcher stops.
#include <memory>
#include <thread>

#include "absl/synchronization/notification.h"
#include "tests/server/frontend/groups/dispatcher_fixture.h"

namespace kinora {
namespace {

// Keeps the loop in Close, which it calls when the group is lost, until the dispatcher accepts no more tasks.
class LastLink : public RankLink {
 public:
  explicit LastLink(Dispatcher& dispatcher) : dispatcher_(dispatcher) {}
  void Send(v1::FrontendMessage message) override {
    if (message.has_run()) running_.Notify();
  }
  void Close(const absl::Status&) override {
    closing_.Notify();
    while (Accepts()) std::this_thread::yield();
  }
  void AwaitRun() { running_.WaitForNotification(); }
  void AwaitClosing() { closing_.WaitForNotification(); }

 private:
  // The loop is busy here, so an accepted task stays in its queue; a rejected one is destroyed at once.
  bool Accepts() {
    auto held = std::make_shared<int>();
    const std::weak_ptr<int> task = held;
    dispatcher_.ListGroups([held = std::move(held)](const auto&) {});
    return !task.expired();
  }

  Dispatcher& dispatcher_;
  absl::Notification running_, closing_;
};

// AddressSanitizer reports a loop that uses the group after its destruction.
TEST_F(DispatcherTest, AGroupThatIsLostDuringTheStopOutlivesItsCall) {
  const auto link = std::make_shared<LastLink>(*dispatcher_);
  dispatcher_->Join(HelloOf("one"), link);
  v1::WorkerMessage ready;
  ready.mutable_ready()->mutable_model()->set_id("tiny");
  dispatcher_->Receive(link, ready);
  Submit();
  link->AwaitRun();
  v1::WorkerMessage failed;
  failed.mutable_rank_failed();
  dispatcher_->Receive(link, failed);
  link->AwaitClosing();
  dispatcher_.reset();
}

}  // namespace
}  // namespace kinora
