#include "server/gateway/call_queue.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/common/status_details.h"

namespace kinora {
namespace {

absl::Status Overloaded(std::string_view message) {
  return WithRetryInfo(absl::UnavailableError(std::string(message)), absl::Seconds(2));
}

}  // namespace

CallQueue::Place CallQueue::MakePlace() {
  return {this, [](CallQueue* queue) { queue->Release(); }};
}

int64_t CallQueue::Enter(OnTurn on_turn) {
  bool begins = false;
  int64_t call;
  {
    absl::MutexLock lock(&mu_);
    call = ++last_;
    begins = beginning_ < limits_.beginning;
    if (begins) {
      beginning_ += 1;
    } else if (waiting_.size() < limits_.waiting) {
      const absl::Time deadline = loop_.Now() + limits_.wait;
      waiting_.emplace(call, Waiter{.deadline = deadline, .on_turn = std::move(on_turn)});
      if (!std::exchange(timer_set_, true)) loop_.PostAt(deadline, [this] { FailLate(); });
      return call;
    }
  }
  if (begins) {
    on_turn(MakePlace());
  } else {
    loop_.Post([on_turn = std::move(on_turn), limit = limits_.waiting] {
      on_turn(Overloaded(absl::StrCat("more than ", limit, " calls wait for the server behind this gateway")));
    });
  }
  return call;
}

void CallQueue::Leave(int64_t call) {
  OnTurn on_turn;
  {
    absl::MutexLock lock(&mu_);
    const auto found = waiting_.find(call);
    if (found == waiting_.end()) return;
    on_turn = std::move(found->second.on_turn);
    waiting_.erase(found);
  }
  loop_.Post([on_turn = std::move(on_turn)] { on_turn(absl::CancelledError("the client left")); });
}

// Gives the place to the call that has waited longest.
void CallQueue::Release() {
  OnTurn next;
  {
    absl::MutexLock lock(&mu_);
    if (waiting_.empty()) {
      beginning_ -= 1;
      return;
    }
    next = std::move(waiting_.begin()->second.on_turn);
    waiting_.erase(waiting_.begin());
  }
  next(MakePlace());
}

void CallQueue::FailLate() {
  std::vector<OnTurn> late;
  {
    absl::MutexLock lock(&mu_);
    const absl::Time now = loop_.Now();
    while (!waiting_.empty() && waiting_.begin()->second.deadline <= now) {
      late.push_back(std::move(waiting_.begin()->second.on_turn));
      waiting_.erase(waiting_.begin());
    }
    timer_set_ = !waiting_.empty();
    if (timer_set_) loop_.PostAt(waiting_.begin()->second.deadline, [this] { FailLate(); });
  }
  for (const OnTurn& on_turn : late) {
    on_turn(Overloaded(
        absl::StrCat("the server behind this gateway took no more calls for ", absl::FormatDuration(limits_.wait))));
  }
}

}  // namespace kinora
