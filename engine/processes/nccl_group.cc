#include "engine/processes/nccl_group.h"

#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

using nccl::Result;

constexpr auto kPoll = std::chrono::microseconds(50);  // interval of polls for calls that take milliseconds

}  // namespace

NcclGroup::NcclGroup(int rank, int size, Rendezvous& rendezvous, Options options)
    : rank_(rank), size_(size), rendezvous_(rendezvous), options_(std::move(options)) {}

absl::StatusOr<std::shared_ptr<NcclGroup>> NcclGroup::Join(int rank, int size, Rendezvous& rendezvous,
                                                           Options options) {
  std::shared_ptr<NcclGroup> group(new NcclGroup(rank, size, rendezvous, std::move(options)));
  absl::Status status = group->OpenWorld();
  if (status.ok()) return group;
  if (group->watch_.joinable()) {
    group->Abort(std::string(status.message()));
  } else {  // no thread here would notify the others
    rendezvous.Publish(group->Key("abort"), std::string(status.message()));
  }
  return status;
}

absl::Status NcclGroup::OpenWorld() {
  KINORA_ASSIGN_OR_RETURN(nccl_, nccl::Open(options_.library));
  KINORA_ASSIGN_OR_RETURN(timer_, CallTimer::Create());
  watch_ = std::thread([this] { Watch(); });
  KINORA_ASSIGN_OR_RETURN(const nccl::UniqueId id, AgreeOnId());
  {
    const std::lock_guard lock(mu_);
    if (interruption_->set()) return interruption_->status();
    nccl::Config config;
    config.blocking = 0;
    config.split_share = 1;
    nccl::Comm& world = communicators_.emplace_back(nullptr);
    const Result result = nccl_.CommInitRankConfig(&world, size_, id, rank_, &config);
    if (result != Result::kSuccess && result != Result::kInProgress) return Failed(result, "joining the group");
  }
  return Settle(0, "joining the group", options_.patience);
}

// Rank 0 gets the id from the library and publishes it.
absl::StatusOr<nccl::UniqueId> NcclGroup::AgreeOnId() {
  nccl::UniqueId id{};
  if (rank_ == 0) {
    if (const Result result = nccl_.GetUniqueId(&id); result != Result::kSuccess)
      return Failed(result, "the group's id");
    rendezvous_.Publish(Key("id"), std::string(id.internal, sizeof id.internal));
    return id;
  }
  // Waits in steps of kLook, because rank 0 may abort instead.
  const auto deadline = Clock::Steady().Now() + options_.patience;
  absl::StatusOr<std::string> answer;
  do {
    answer = rendezvous_.Await(0, Key("id"), kLook);
    if (interruption_->set()) return interruption_->status();
  } while (absl::IsDeadlineExceeded(answer.status()) && Clock::Steady().Now() < deadline);
  KINORA_ASSIGN_OR_RETURN(const std::string bytes, std::move(answer));
  if (bytes.size() != sizeof id.internal) {
    return absl::InternalError(absl::StrCat("NCCL: rank 0 published an id of ", bytes.size(), " bytes"));
  }
  std::memcpy(id.internal, bytes.data(), bytes.size());
  return id;
}

absl::Status NcclGroup::Failed(Result result, const std::string& what) {
  const std::string detail = nccl_.GetLastError(nullptr);
  const std::string message =
      absl::StrCat("NCCL: ", what, ": ", nccl_.GetErrorString(result), detail.empty() ? "" : ": ", detail);
  return result == Result::kRemoteError ? absl::AbortedError(message) : absl::InternalError(message);
}

absl::Status NcclGroup::Settle(int number, const char* what, absl::Duration patience) {
  Clock& steady = Clock::Steady();
  const auto deadline = steady.Now() + patience;
  while (true) {
    {
      const std::lock_guard lock(mu_);
      if (interruption_->set()) return interruption_->status();
      Result state = Result::kSuccess;
      const Result asked = nccl_.CommGetAsyncError(communicators_[number], &state);
      if (asked != Result::kSuccess) return Failed(asked, what);
      if (state == Result::kSuccess) return absl::OkStatus();
      if (state != Result::kInProgress) return Failed(state, what);
    }
    if (steady.Now() > deadline) {
      return absl::DeadlineExceededError(absl::StrCat("NCCL: ", what, ": rank ", rank_, " of ", size_, " waited for ",
                                                      absl::FormatDuration(patience),
                                                      ", and other ranks have not come"));
    }
    std::this_thread::sleep_for(kPoll);
  }
}

absl::StatusOr<int> NcclGroup::Split(int color, int key) {
  int number = 0;
  {
    const std::lock_guard lock(mu_);
    if (interruption_->set()) return interruption_->status();
    number = static_cast<int>(communicators_.size());
    nccl::Comm& part = communicators_.emplace_back(nullptr);  // null until the split is done
    const Result result = nccl_.CommSplit(communicators_[0], color, key, &part, nullptr);
    if (result != Result::kSuccess && result != Result::kInProgress) return Failed(result, "an axis of the mesh");
  }
  KINORA_RETURN_IF_ERROR(Settle(0, "an axis of the mesh", options_.patience));
  KINORA_RETURN_IF_ERROR(Settle(number, "an axis of the mesh", options_.patience));
  return number;
}

absl::Status NcclGroup::Call(int communicator, const char* what, Enqueueing enqueue) {
  Result result = Result::kSuccess;
  absl::Status status;
  {
    const std::lock_guard lock(mu_);
    if (interruption_->set()) return interruption_->status();
    result = enqueue(nccl_, communicators_[communicator]);
    if (result != Result::kSuccess && result != Result::kInProgress) status = Failed(result, what);
  }
  if (result == Result::kInProgress) status = Settle(communicator, what, options_.patience);
  if (!status.ok()) Abort(std::string(status.message()));
  return status;
}

void NcclGroup::Abort(const std::string& why) {
  interruption_->Set(absl::AbortedError(why));
  changed_.notify_all();
}

void NcclGroup::Watch() {
  std::unique_lock lock(mu_);
  while (!ended_ && !interruption_->set()) {
    LookAtCommunicators();
    lock.unlock();
    LookAtRanks();
    lock.lock();
    if (!ended_ && !interruption_->set()) changed_.wait_for(lock, absl::ToChronoMilliseconds(kLook));
  }
  lock.unlock();
  if (!interruption_->set()) return;
  rendezvous_.Publish(Key("abort"), std::string(interruption_->status().message()));
  AbortCommunicators();
}

void NcclGroup::LookAtCommunicators() {
  for (const nccl::Comm communicator : communicators_) {
    if (communicator == nullptr) continue;
    Result state = Result::kSuccess;
    const Result asked = nccl_.CommGetAsyncError(communicator, &state);
    if (asked != Result::kSuccess) state = asked;
    if (state == Result::kSuccess || state == Result::kInProgress) continue;
    Abort(std::string(Failed(state, "a collective").message()));
    return;
  }
}

void NcclGroup::LookAtRanks() {
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    const absl::StatusOr<std::string> why = rendezvous_.Await(rank, Key("abort"), absl::ZeroDuration());
    if (why.ok()) {
      Abort(absl::StrCat("rank ", rank, " of the group aborted: ", *why));
    } else if (!absl::IsDeadlineExceeded(why.status())) {
      Abort(std::string(why.status().message()));
    }
  }
}

// Aborts without mu_: NCCL waits for graphs, whose owner may still call this group.
void NcclGroup::AbortCommunicators() {
  std::deque<nccl::Comm> all;
  {
    const std::lock_guard lock(mu_);
    all = communicators_;
    for (nccl::Comm& communicator : communicators_) communicator = nullptr;
  }
  for (auto each = all.rbegin(); each != all.rend(); ++each) {
    if (*each != nullptr) nccl_.CommAbort(*each);
  }
}

// Returns false if NCCL fails or the other ranks do not finalize in time.
bool NcclGroup::EndInOrder() {
  for (int number = static_cast<int>(communicators_.size()) - 1; number >= 0; --number) {
    const Result result = nccl_.CommFinalize(communicators_[number]);
    if (result != Result::kSuccess && result != Result::kInProgress) return false;
    if (!Settle(number, "the group's end", kFarewell).ok()) return false;
  }
  for (auto each = communicators_.rbegin(); each != communicators_.rend(); ++each) nccl_.CommDestroy(*each);
  return true;
}

NcclGroup::~NcclGroup() {
  {
    const std::lock_guard lock(mu_);
    ended_ = true;
  }
  changed_.notify_all();
  if (watch_.joinable()) watch_.join();
  if (!interruption_->set() && !EndInOrder()) AbortCommunicators();
}

}  // namespace kinora
