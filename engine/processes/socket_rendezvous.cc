#include "engine/processes/socket_rendezvous.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/base/uninterrupted.h"

namespace kinora {
namespace {

// A message is one record: the publishing rank, which the hub fills in, the length of the key, the key, the value.
struct Head {
  int32_t rank = 0;
  uint32_t key_bytes = 0;
};
constexpr size_t kRecordBytes = sizeof(Head) + SocketRendezvous::kMaxBytes;

absl::Status SocketError(const char* what) {
  return absl::UnavailableError(absl::StrCat("rendezvous: cannot ", what, ": ", std::strerror(errno)));
}

// Returns a record; nullopt once the other side has gone.
std::optional<std::string> ReadRecord(int fd) {
  std::string record(kRecordBytes, '\0');
  const ssize_t n = Uninterrupted([&] { return recv(fd, record.data(), record.size(), 0); });
  if (n < static_cast<ssize_t>(sizeof(Head))) return std::nullopt;
  record.resize(n);
  return record;
}

// Ignores failures: a rank that has gone needs nothing more.
void WriteRecord(int fd, const std::string& record) {
  Uninterrupted([&] { return send(fd, record.data(), record.size(), MSG_NOSIGNAL); });
}

}  // namespace

absl::StatusOr<std::unique_ptr<RendezvousHub>> RendezvousHub::Open(int ranks) {
  auto hub = std::unique_ptr<RendezvousHub>(new RendezvousHub());
  for (int rank = 0; rank < ranks; ++rank) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return SocketError("make sockets");
    hub->hub_ends_.emplace_back(pair[0]);
    hub->rank_ends_.emplace_back(pair[1]);
  }
  hub->stop_ = FileDescriptor(eventfd(0, EFD_CLOEXEC));
  if (!hub->stop_.ok()) return SocketError("make an eventfd");
  return hub;
}

RendezvousHub::~RendezvousHub() {
  if (!thread_.joinable()) return;
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void RendezvousHub::CloseInRank() {
  hub_ends_.clear();
  rank_ends_.clear();
}

void RendezvousHub::Start() {
  rank_ends_.clear();
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the starter's other threads handle signals
  thread_ = std::thread([this] { PassOn(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void RendezvousHub::PassOn() {
  std::vector<pollfd> watched;
  for (const FileDescriptor& end : hub_ends_) watched.push_back({end.get(), POLLIN, 0});
  watched.push_back({stop_.get(), POLLIN, 0});
  while (true) {
    if (Uninterrupted([&] { return poll(watched.data(), watched.size(), -1); }) < 0) return;
    if (watched.back().revents != 0) return;
    for (size_t from = 0; from < hub_ends_.size(); ++from) {
      if (watched[from].revents == 0) continue;
      std::optional<std::string> record = ReadRecord(watched[from].fd);
      if (!record) {
        watched[from].fd = -1;  // poll ignores it
        watched[from].revents = 0;
        continue;
      }
      Head head;
      std::memcpy(&head, record->data(), sizeof head);
      head.rank = static_cast<int32_t>(from);
      std::memcpy(record->data(), &head, sizeof head);
      for (size_t to = 0; to < hub_ends_.size(); ++to) {
        if (to != from) WriteRecord(hub_ends_[to].get(), *record);
      }
    }
  }
}

void SocketRendezvous::Publish(const std::string& key, const std::string& value) {
  KINORA_CHECK(key.size() + value.size() <= kMaxBytes) << key;
  const Head head{.key_bytes = static_cast<uint32_t>(key.size())};
  WriteRecord(end_.get(), std::string(reinterpret_cast<const char*>(&head), sizeof head) + key + value);
}

absl::StatusOr<bool> SocketRendezvous::Receive(Deadline deadline) {
  pollfd watched{end_.get(), POLLIN, 0};
  const int ready = Uninterrupted([&] {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    return poll(&watched, 1, static_cast<int>(std::clamp<int64_t>(left, 0, std::numeric_limits<int>::max())));
  });
  if (ready < 0) return SocketError("wait");
  if (ready == 0) return false;
  const std::optional<std::string> record = ReadRecord(end_.get());
  if (!record)
    return absl::UnavailableError("the process that started the ranks has gone, or has seen one of them end");
  Head head;
  std::memcpy(&head, record->data(), sizeof head);
  if (head.key_bytes > record->size() - sizeof head) return absl::InternalError("rendezvous: a key beyond its record");
  const std::string key = record->substr(sizeof head, head.key_bytes);
  const std::lock_guard lock(mu_);
  published_[{head.rank, key}] = record->substr(sizeof head + head.key_bytes);
  return true;
}

// Uses the standard clock and condition variable, because Clock::Steady() may not wait in a child of fork.
absl::StatusOr<std::string> SocketRendezvous::Await(int rank, const std::string& key, absl::Duration patience) {
  const Deadline deadline = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(patience);
  const std::pair<int, std::string> wanted(rank, key);
  std::unique_lock lock(mu_);
  while (true) {
    const auto turn = [&] { return !reading_ || published_.count(wanted) > 0; };
    const bool in_time = changed_.wait_until(lock, deadline, turn);
    if (const auto found = published_.find(wanted); found != published_.end()) return found->second;
    absl::StatusOr<bool> received = false;
    if (in_time) {
      reading_ = true;
      lock.unlock();
      received = Receive(deadline);
      lock.lock();
      reading_ = false;
      changed_.notify_all();
    }
    KINORA_RETURN_IF_ERROR(received.status());
    if (!*received) {
      return absl::DeadlineExceededError(
          absl::StrCat("rank ", rank, " has not published \"", key, "\" for ", absl::FormatDuration(patience)));
    }
  }
}

}  // namespace kinora
