// Waits for SIGINT, SIGTERM and SIGHUP. Each signal is handled on a separate thread, so that a handler may make calls
// without delaying later signals.
#ifndef KINORA_SERVER_CLIENT_INTERRUPTS_H_
#define KINORA_SERVER_CLIENT_INTERRUPTS_H_

#include <pthread.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace kinora {

class Interrupts {
 public:
  // Calls `on_interrupt(n)` for the n-th signal, from 1. main() must block Signals() before any thread starts.
  explicit Interrupts(std::function<void(int)> on_interrupt)
      : on_interrupt_(std::move(on_interrupt)), thread_([this] {
          sigset_t signals = Signals();
          int signal = 0;
          for (int count = 1; sigwait(&signals, &signal) == 0 && !ended_; ++count) {
            handlers_.emplace_back(on_interrupt_, count);
          }
        }) {}
  ~Interrupts() {  // waits for the handlers
    ended_ = true;
    pthread_kill(thread_.native_handle(), SIGINT);
    thread_.join();
    for (std::thread& handler : handlers_) handler.join();
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  static sigset_t Signals() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    return signals;
  }

 private:
  const std::function<void(int)> on_interrupt_;
  std::atomic<bool> ended_ = false;
  std::vector<std::thread> handlers_;  // used by thread_ until it is joined
  std::thread thread_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_CLIENT_INTERRUPTS_H_
