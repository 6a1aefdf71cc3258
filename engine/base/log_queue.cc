#include "engine/base/log_queue.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <string_view>
#include <thread>
#include <utility>

namespace kinora {

// std::mutex, because absl::Mutex times its waits by the date.
struct LogQueue::State {
  const int fd;
  const int64_t most_bytes;
  const std::function<std::string(int64_t)> say_dropped;

  std::mutex mu;
  std::condition_variable changed{};
  std::deque<std::string> lines{};
  int64_t bytes = 0;  // of `lines` and the line being written
  int64_t dropped = 0;
  int64_t unsaid = 0;  // dropped lines not yet reported by a line of their own
  bool writing = false;

  bool Fits(const std::string& line) const { return bytes + std::ssize(line) <= most_bytes; }
  // Also drops the line if memory runs out: an uncaught bad_alloc would end the process with `mu` locked, and SayAtLast
  // locks it.
  void Push(std::string line) {
    const int64_t size = std::ssize(line);
    try {
      lines.push_back(std::move(line));
      bytes += size;
    } catch (const std::bad_alloc&) {
      ++dropped;
      ++unsaid;
    }
  }
  void SayDropped() {
    if (unsaid == 0) return;
    try {
      lines.push_back(say_dropped(unsaid));
      bytes += std::ssize(lines.back());
      unsaid = 0;
    } catch (const std::bad_alloc&) {  // retried later
    }
  }
  bool idle() const { return lines.empty() && !writing; }
};

namespace {

bool WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {  // another process made the descriptor non-blocking
      pollfd writable{.fd = fd, .events = POLLOUT, .revents = 0};
      poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

void LogQueue::Run(State& s) {
  std::unique_lock lock(s.mu);
  while (true) {
    s.changed.wait(lock, [&s] { return !s.lines.empty(); });
    const std::string line = std::move(s.lines.front());
    s.lines.pop_front();
    s.writing = true;
    lock.unlock();
    const bool written = WriteAll(s.fd, line);
    lock.lock();
    s.writing = false;
    s.bytes -= std::ssize(line);
    if (!written) ++s.dropped;  // cannot be reported
    if (s.lines.empty()) s.SayDropped();
    s.changed.notify_all();
  }
}

LogQueue::LogQueue(int fd, int64_t most_bytes, std::function<std::string(int64_t)> say_dropped)
    : state_(*new State{.fd = fd, .most_bytes = most_bytes, .say_dropped = std::move(say_dropped), .mu = {}}) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);  // signals are for other threads
  std::thread([&state = state_] { Run(state); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void LogQueue::Add(std::string line) {
  const std::lock_guard lock(state_.mu);
  if (!state_.Fits(line)) {
    ++state_.dropped;
    ++state_.unsaid;
    return;
  }
  state_.SayDropped();  // its line is short and may exceed the limit
  state_.Push(std::move(line));
  state_.changed.notify_all();
}

bool LogQueue::Flush(absl::Duration patience) {
  std::unique_lock lock(state_.mu);
  return state_.changed.wait_for(lock, absl::ToChronoNanoseconds(patience), [this] { return state_.idle(); });
}

int64_t LogQueue::dropped() const {
  const std::lock_guard lock(state_.mu);
  return state_.dropped;
}

}  // namespace kinora
