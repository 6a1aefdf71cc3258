#include "engine/ops/cuda/call_timer.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/ops/cuda/cuda_memory.h"
#include "kernels/stamp.h"

namespace kinora {

// A page that a graph or a call in progress holds.
struct CallTimer::Site {
  Site(std::weak_ptr<CallTimer> timer, int64_t page, Took took)
      : timer(std::move(timer)), page(page), took(std::move(took)) {}
  ~Site() {
    if (const auto owner = timer.lock()) owner->free_.push_back(page);
  }
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

  const std::weak_ptr<CallTimer> timer;
  const int64_t page;
  const Took took;
  uint64_t read = 0;  // number of the page's calls already read, including earlier owners'
  bool has_run = false;
};

absl::StatusOr<std::shared_ptr<CallTimer>> CallTimer::Create(int64_t places) {
  KINORA_ASSIGN_OR_RETURN(Buffer memory, AllocatePinned(places * sizeof(Page), "the times of calls"));
  std::memset(memory.data(), 0, memory.bytes());
  return std::shared_ptr<CallTimer>(new CallTimer(std::move(memory), places));
}

CallTimer::CallTimer(Buffer memory, int64_t places)
    : memory_(std::move(memory)), pages_(static_cast<Page*>(memory_.data())), free_(places) {
  std::iota(free_.rbegin(), free_.rend(), 0);
}

std::shared_ptr<CallTimer::Site> CallTimer::NewSite(Took took) {
  if (free_.empty()) OnReached();
  if (free_.empty()) return nullptr;
  auto site = std::make_shared<Site>(weak_from_this(), free_.back(), std::move(took));
  free_.pop_back();
  site->read = std::atomic_ref(pages_[site->page].calls).load(std::memory_order_acquire);
  sites_.push_back(site);
  return site;
}

absl::Status CallTimer::Around(CudaStream& stream, absl::FunctionRef<absl::Status()> call, Took took) {
  const std::shared_ptr<Site> site = NewSite(std::move(took));
  if (site == nullptr) return call();
  Page& page = pages_[site->page];
  const kernels::Stamps stamps{.calls = &page.calls, .nanoseconds = page.nanoseconds, .kept = kKept};
  KINORA_RETURN_IF_ERROR(CudaStatus(kernels::LaunchBeginStamp(stamps, stream.handle()), "a stamp before a call"));
  KINORA_RETURN_IF_ERROR(call());
  KINORA_RETURN_IF_ERROR(CudaStatus(kernels::LaunchEndStamp(stamps, stream.handle()), "a stamp behind a call"));
  stream.Tell(shared_from_this());
  if (stream.capturing()) {
    stream.AtEachRun([site, timer = shared_from_this()] {});  // the graph keeps both alive
  } else {
    single_.push_back(site);
  }
  return absl::OkStatus();
}

void CallTimer::Read(Site& site) {
  Page& page = pages_[site.page];
  const uint64_t calls = std::atomic_ref(page.calls).load(std::memory_order_acquire);
  const auto stamp = [&](uint64_t at) { return std::atomic_ref(page.nanoseconds[at]).load(std::memory_order_relaxed); };
  site.read = std::max(site.read, calls - std::min<uint64_t>(calls, kKept));
  site.has_run |= site.read < calls;
  for (; site.read < calls; ++site.read) {
    const uint64_t at = 2 * (site.read % kKept);
    site.took(absl::Nanoseconds(static_cast<int64_t>(stamp(at + 1) - stamp(at))));
  }
}

void CallTimer::OnReached() {
  std::erase_if(sites_, [](const auto& each) { return each.expired(); });
  for (const std::weak_ptr<Site>& each : sites_) Read(*each.lock());
  std::erase_if(single_, [](const auto& site) { return site->has_run; });
}

}  // namespace kinora
