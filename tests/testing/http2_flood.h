// A client that plays by HTTP/2's flow control and by nothing else: opens calls, announces a message in each, sends as
// much of it as the server's windows allow, never ends it and never reads a reply to act on. For tests of what a
// stranger can make a server hold.
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
  std::string authorization;                   // "": none is sent
  int streams = 1;                             // of the connection
  int64_t announced_bytes = 0;                 // length in the message's prefix
  int64_t sent_bytes = 0;                      // of each message, at most
  absl::Duration give_up = absl::Seconds(60);  // of the whole flood
};

class Http2Flood {
 public:
  // Connects to "unix:PATH" or "127.0.0.1:PORT". Ends the test program if it cannot.
  explicit Http2Flood(const std::string& address);

  // Sends until every message is sent, refused or held up: the windows are empty and nothing has come for half a
  // second. The connection and its streams stay open. Once.
  void Run(const FloodOptions& options);

  // Begins `calls` calls and drops each at once (RST_STREAM), as fast as the server reads; ends early when the server
  // ends the connection or `give_up` has passed. Returns how many were sent. Once, instead of Run.
  int64_t DropCalls(const std::string& method, int64_t calls, absl::Duration give_up);

  int64_t bytes_sent() const { return bytes_sent_; }  // of messages
  int streams_open() const;                           // that the server has not ended
  bool connected() const { return connected_; }

 private:
  struct Stream {
    int64_t window, unsent;
    bool prefix_sent = false;
    bool open = true;
  };
  void Open(const FloodOptions& options);
  bool QueueData(const FloodOptions& options);  // false: nothing may be sent
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

// Bytes of memory that a process holds, and the most that it has ever held (VmRSS and VmHWM of /proc/PID/status).
int64_t ResidentBytes(int pid);
int64_t PeakResidentBytes(int pid);

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_HTTP2_FLOOD_H_
