// Writes lines to a descriptor from a separate thread, so that a pipe that nobody reads blocks no other thread.
#ifndef KINORA_ENGINE_BASE_LOG_QUEUE_H_
#define KINORA_ENGINE_BASE_LOG_QUEUE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/time/time.h"

namespace kinora {

// Thread-safe. Never destroy one: its thread runs until the process exits.
class LogQueue {
 public:
  // fd: stays open until the process exits. most_bytes: limit on queued lines; lines beyond it are dropped.
  // say_dropped: returns the line that stands in for the dropped ones, queued as soon as there is room.
  LogQueue(int fd, int64_t most_bytes, std::function<std::string(int64_t lines)> say_dropped);
  LogQueue(const LogQueue&) = delete;
  LogQueue& operator=(const LogQueue&) = delete;

  void Add(std::string line);  // never blocks on the descriptor
  // Waits until every added line is written or dropped, at most `patience`; returns whether that happened.
  bool Flush(absl::Duration patience);
  int64_t dropped() const;  // lines, since construction

 private:
  struct State;
  static void Run(State& state);
  State& state_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_BASE_LOG_QUEUE_H_
