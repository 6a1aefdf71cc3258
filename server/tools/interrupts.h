// Waits for SIGINT and SIGTERM on a thread of its own, so that the handler may make calls.
#ifndef KINORA_SERVER_TOOLS_INTERRUPTS_H_
#define KINORA_SERVER_TOOLS_INTERRUPTS_H_

#include <pthread.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <thread>
#include <utility>

namespace kinora {

class Interrupts {
 public:
  // `on_interrupt(n)` for the n-th signal, from 1. main() has blocked both signals before any thread started.
  explicit Interrupts(std::function<void(int)> on_interrupt)
      : thread_([this, on_interrupt = std::move(on_interrupt)] {
          sigset_t signals = Signals();
          int signal = 0;
          for (int count = 1; sigwait(&signals, &signal) == 0 && !ended_; ++count) on_interrupt(count);
        }) {}
  ~Interrupts() {
    ended_ = true;
    pthread_kill(thread_.native_handle(), SIGINT);
    thread_.join();
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
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_INTERRUPTS_H_
