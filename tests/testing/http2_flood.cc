#include "tests/testing/http2_flood.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/check.h"

namespace kinora {
namespace {

// RFC 9113 section 6.
constexpr uint8_t kData = 0, kHeaders = 1, kRstStream = 3, kSettings = 4, kPing = 6, kGoAway = 7, kWindowUpdate = 8;
constexpr uint8_t kAck = 1, kEndStream = 1, kEndHeaders = 4;
constexpr uint16_t kInitialWindowSize = 4;
constexpr int64_t kMaxFrame = 16384;

std::string BigEndian(uint32_t value, int bytes) {
  std::string out;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
  return out;
}

uint32_t FromBigEndian(const std::string& text, size_t at, int bytes) {
  uint32_t value = 0;
  for (int i = 0; i < bytes; ++i) value = value << 8 | static_cast<uint8_t>(text[at + i]);
  return value;
}

std::string Frame(uint8_t type, uint8_t flags, uint32_t stream, const std::string& payload) {
  return absl::StrCat(BigEndian(payload.size(), 3), BigEndian(type, 1), BigEndian(flags, 1), BigEndian(stream, 4),
                      payload);
}

// A literal field without indexing (RFC 7541 section 6.2.2); name and value of fewer than 127 bytes.
std::string Field(const std::string& name, const std::string& value) {
  KINORA_CHECK(name.size() < 127 && value.size() < 127);
  return absl::StrCat(BigEndian(0, 1), BigEndian(name.size(), 1), name, BigEndian(value.size(), 1), value);
}

FileDescriptor Connect(const std::string& address) {
  const bool local = absl::StartsWith(address, "unix:");
  FileDescriptor socket(::socket(local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (local) {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    KINORA_CHECK(address.size() - 5 < sizeof(to.sun_path));
    address.copy(to.sun_path, sizeof(to.sun_path), 5);
    KINORA_CHECK(connect(socket.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0) << address;
  } else {
    sockaddr_in to{};
    int port = 0;
    KINORA_CHECK(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port)) << address;
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    KINORA_CHECK(connect(socket.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0) << address;
  }
  return socket;
}

int64_t StatusField(int pid, const std::string& name) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(file, line);) {
    if (absl::StartsWith(line, name)) return std::stoll(line.substr(name.size())) * 1024;
  }
  return 0;
}

}  // namespace

Http2Flood::Http2Flood(const std::string& address) : socket_(Connect(address)) {
  out_ = absl::StrCat("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Frame(kSettings, 0, 0, ""));
}

void Http2Flood::Open(const FloodOptions& options) {
  std::string fields = absl::StrCat(Field(":method", "POST"), Field(":scheme", "http"), Field(":path", options.method),
                                    Field(":authority", "localhost"), Field("content-type", "application/grpc"),
                                    Field("te", "trailers"));
  if (!options.authorization.empty()) absl::StrAppend(&fields, Field("authorization", options.authorization));
  for (int i = 0; i < options.streams; ++i) {
    const uint32_t id = 2 * i + 1;
    out_ += Frame(kHeaders, kEndHeaders, id, fields);
    streams_[id] = {.window = initial_window_, .unsent = options.sent_bytes};
    turns_.push_back(id);
  }
}

void Http2Flood::Run(const FloodOptions& options) {
  Open(options);
  const absl::Time end = absl::Now() + options.give_up;
  while (connected_ && absl::Now() < end) {
    const bool more = !out_.empty() || QueueData(options);
    pollfd poll_for = {.fd = socket_.get(), .events = static_cast<int16_t>(more ? POLLIN | POLLOUT : POLLIN)};
    constexpr int kQuiet = 500;
    if (poll(&poll_for, 1, kQuiet) == 0 && !more) return;
    if ((poll_for.revents & (POLLIN | POLLHUP | POLLERR)) != 0) Receive();
    if ((poll_for.revents & POLLOUT) != 0) Send();
  }
}

int64_t Http2Flood::DropCalls(const std::string& method, int64_t calls, absl::Duration give_up) {
  // The fields are sent in full once, then by index (RFC 7541 section 6.2.1): 28 bytes per call.
  std::string fields = "\x83\x86";  // :method POST, :scheme http
  for (const auto& [name, value] : {std::pair<std::string, std::string>{":path", method},
                                    {":authority", "localhost"},
                                    {"content-type", "application/grpc"},
                                    {"te", "trailers"}}) {
    fields += "\x40" + Field(name, value).substr(1);
  }
  const absl::Time end = absl::Now() + give_up;
  int64_t sent = 0;
  while (connected_ && absl::Now() < end && (sent < calls || !out_.empty())) {
    for (; sent < calls && out_.size() < 65536; ++sent) {
      const auto id = static_cast<uint32_t>(2 * sent + 1);
      out_ += Frame(kHeaders, kEndHeaders, id, fields) + Frame(kRstStream, 0, id, BigEndian(8, 4));
      fields = "\x83\x86\xc1\xc0\xbf\xbe";
    }
    pollfd poll_for = {.fd = socket_.get(), .events = POLLIN | POLLOUT};
    poll(&poll_for, 1, static_cast<int>(absl::ToInt64Milliseconds(end - absl::Now())));
    if ((poll_for.revents & (POLLIN | POLLHUP | POLLERR)) != 0) Receive();
    if ((poll_for.revents & POLLOUT) != 0) Send();
  }
  return sent;
}

bool Http2Flood::QueueData(const FloodOptions& options) {
  for (size_t tries = turns_.size(); tries > 0; --tries) {
    const uint32_t id = turns_.front();
    turns_.pop_front();
    Stream& stream = streams_.at(id);
    const int64_t bytes = std::min({stream.window, connection_window_, stream.unsent, kMaxFrame});
    if (!stream.open || stream.unsent == 0) continue;  // leaves the rotation
    turns_.push_back(id);
    if (bytes < 5) continue;
    std::string payload(static_cast<size_t>(bytes), 'x');
    if (!std::exchange(stream.prefix_sent, true)) {
      payload.replace(0, 5, std::string(1, '\0') + BigEndian(static_cast<uint32_t>(options.announced_bytes), 4));
    }
    out_ += Frame(kData, 0, id, payload);
    stream.window -= bytes;
    stream.unsent -= bytes;
    connection_window_ -= bytes;
    bytes_sent_ += bytes;
    return true;
  }
  return false;
}

void Http2Flood::Send() {
  const ssize_t n = send(socket_.get(), out_.data(), out_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (n > 0) out_.erase(0, static_cast<size_t>(n));
  if (n < 0 && errno != EAGAIN) connected_ = false;
}

void Http2Flood::Receive() {
  char buffer[65536];
  const ssize_t n = recv(socket_.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
  if (n == 0 || (n < 0 && errno != EAGAIN)) connected_ = false;
  if (n > 0) in_.append(buffer, static_cast<size_t>(n));
  constexpr size_t kHeader = 9;
  while (in_.size() >= kHeader) {
    const size_t length = FromBigEndian(in_, 0, 3);
    if (in_.size() < kHeader + length) return;
    const std::string payload = in_.substr(kHeader, length);
    const uint8_t type = in_[3], flags = in_[4];
    const uint32_t stream = FromBigEndian(in_, 5, 4);
    in_.erase(0, kHeader + length);
    OnFrame(type, flags, stream, payload);
  }
}

void Http2Flood::OnFrame(uint8_t type, uint8_t flags, uint32_t stream, const std::string& payload) {
  const auto found = streams_.find(stream);
  if (type == kSettings && (flags & kAck) == 0) {
    OnSettings(payload);
    out_ += Frame(kSettings, kAck, 0, "");
  } else if (type == kPing && (flags & kAck) == 0) {
    out_ += Frame(kPing, kAck, 0, payload);
  } else if (type == kWindowUpdate && payload.size() == 4) {
    const int64_t more = FromBigEndian(payload, 0, 4);
    if (stream == 0) connection_window_ += more;
    if (found != streams_.end()) found->second.window += more;
  } else if (type == kGoAway) {
    connected_ = false;
  } else if (found != streams_.end() &&
             (type == kRstStream || ((type == kHeaders || type == kData) && (flags & kEndStream) != 0))) {
    found->second.open = false;
  }
}

void Http2Flood::OnSettings(const std::string& payload) {
  for (size_t at = 0; at + 6 <= payload.size(); at += 6) {
    if (FromBigEndian(payload, at, 2) != kInitialWindowSize) continue;
    const int64_t window = FromBigEndian(payload, at + 2, 4);
    for (auto& [id, stream] : streams_) stream.window += window - initial_window_;
    initial_window_ = window;
  }
}

int Http2Flood::streams_open() const {
  return static_cast<int>(
      std::count_if(streams_.begin(), streams_.end(), [](const auto& entry) { return entry.second.open; }));
}

int64_t ResidentBytes(int pid) { return StatusField(pid, "VmRSS:"); }
int64_t PeakResidentBytes(int pid) { return StatusField(pid, "VmHWM:"); }

}  // namespace kinora
