// A client that obeys HTTP/2 flow control but nothing else: it opens calls, announces a message in each, sends as much
// of it as the server's windows allow, never finishes it and ignores all replies. For tests of how much memory an
// untrusted client can make a server hold.
#ifndef KINORA_TESTS_TESTING_HTTP2_FLOOD_H_
#define KINORA_TESTS_TESTING_HTTP2_FLOOD_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "engine/base/file_descriptor.h"

namespace kinora {

struct FloodOptions {
  std::string method;                          // "/kinora.v1.VideoGeneration/GetVideo"
  std::string authorization;                   // empty: no header is sent
  int streams = 1;                             // per connection
  int64_t announced_bytes = 0;                 // length in the message prefix
  int64_t sent_bytes = 0;                      // maximum per message
  absl::Duration give_up = absl::Seconds(60);  // for the whole flood
};

class Http2Flood {
 public:
  // Connects to "unix:PATH" or "127.0.0.1:PORT". Ends the test program on failure.
  explicit Http2Flood(const std::string& address);

  // Sends until every message is sent, rejected or blocked (the windows are empty and nothing has arrived for half a
  // second). The connection and its streams stay open. Call it once.
  void Run(const FloodOptions& options);

  // Starts `calls` calls and cancels each immediately (RST_STREAM), as fast as the server reads. Stops early if the
  // server ends the connection or `give_up` has passed. Returns the number of calls sent. Call it once, instead of Run.
  int64_t DropCalls(const std::string& method, int64_t calls, absl::Duration give_up);

  int64_t bytes_sent() const { return bytes_sent_; }  // of all messages
  int streams_open() const;                           // streams that the server has not ended
  bool connected() const { return connected_; }

 private:
  struct Stream {
    int64_t window, unsent;
    bool prefix_sent = false;
    bool open = true;
  };
  void Open(const FloodOptions& options);
  bool QueueData(const FloodOptions& options);  // false if nothing can be sent
  void Send();
  void Receive();
  void OnFrame(uint8_t type, uint8_t flags, uint32_t stream, const std::string& payload);
  void OnSettings(const std::string& payload);

  FileDescriptor socket_;
  bool connected_ = true;
  std::string out_, in_;
  std::map<uint32_t, Stream> streams_;
  std::deque<uint32_t> turns_;
  int64_t initial_window_ = 65535, connection_window_ = 65535, bytes_sent_ = 0;
};

// Resident memory of a process in bytes, now and at its peak (VmRSS and VmHWM of /proc/PID/status).
int64_t ResidentBytes(int pid);
int64_t PeakResidentBytes(int pid);

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_HTTP2_FLOOD_H_
