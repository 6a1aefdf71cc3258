#include "tests/bench/http_load.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/check.h"

namespace kinora {
namespace {

constexpr int kCreators = 16;  // connections with one creation at a time
constexpr char kHost[] = " HTTP/1.1\r\nHost: localhost\r\n";

void RaiseOpenFiles() {
  rlimit files{};
  KINORA_CHECK_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  KINORA_CHECK_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
}

FileDescriptor Connect(const std::string& port) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::atoi(port.c_str())));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  KINORA_CHECK_EQ(connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  const int on = 1;
  (void)setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const timeval patience{.tv_sec = 60, .tv_usec = 0};
  (void)setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  return socket;
}

void Send(const FileDescriptor& socket, const std::string& bytes) {
  KINORA_CHECK_EQ(send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), std::ssize(bytes));
}

}  // namespace

HttpLoad::HttpLoad(const std::string& frontend, int watchers, const std::string& watched_job)
    : gateway_({KINORA_GATEWAY_BINARY, "--address=127.0.0.1:0", absl::StrCat("--frontend=", frontend),
                absl::StrCat("--max-connections=", watchers + 100),
                absl::StrCat("--max-connections-per-client=", watchers + 100), "--max-requests-per-second=0"}),
      port_(AwaitPort()) {
  RaiseOpenFiles();
  OpenWatches(watchers, watched_job);
  threads_.emplace_back([this] { ReadWatches(); });
  for (int i = 0; i < kCreators; ++i) {
    threads_.emplace_back([this] { CreateJobs(); });
  }
}

HttpLoad::~HttpLoad() {
  stopping_ = true;
  {
    absl::MutexLock lock(&mu_);
    stopped_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

std::string HttpLoad::AwaitPort() {
  std::string log;
  while (log.find("event=serving") == std::string::npos || log.back() != '\n') {
    absl::SleepFor(absl::Milliseconds(10));
    log = gateway_.ErrSoFar();
  }
  const std::string rest = log.substr(log.find(" port=") + 6);
  return rest.substr(0, rest.find_first_not_of("0123456789"));
}

// All at once.
void HttpLoad::OpenWatches(int count, const std::string& job) {
  streams_queue_ = FileDescriptor(epoll_create1(EPOLL_CLOEXEC));
  for (int i = 0; i < count; ++i) {
    const FileDescriptor& socket = streams_.emplace_back(Connect(port_));
    epoll_event readable{.events = EPOLLIN, .data = {.fd = socket.get()}};
    KINORA_CHECK_EQ(epoll_ctl(streams_queue_.get(), EPOLL_CTL_ADD, socket.get(), &readable), 0);
  }
  const std::string request = absl::StrCat("GET /v1/videos/", job, "/events", kHost, "\r\n");
  for (const FileDescriptor& socket : streams_) Send(socket, request);
  for (const FileDescriptor& socket : streams_) {
    std::string received;
    char bytes[16384];
    while (!absl::StrContains(received, "event: snapshot")) {
      const ssize_t size = recv(socket.get(), bytes, sizeof(bytes), 0);
      KINORA_CHECK(size > 0) << "after " << watchers_ << " streams: " << received;
      received.append(bytes, static_cast<size_t>(size));
    }
    ++watchers_;
  }
}

void HttpLoad::ReadWatches() {
  char bytes[16384];
  while (!stopping_) {
    epoll_event readable{};
    if (epoll_wait(streams_queue_.get(), &readable, 1, /*timeout=*/100) != 1) continue;
    if (recv(readable.data.fd, bytes, sizeof(bytes), 0) > 0) continue;
    epoll_ctl(streams_queue_.get(), EPOLL_CTL_DEL, readable.data.fd, nullptr);
    --watchers_;
  }
}

std::string HttpLoad::AwaitReply(const FileDescriptor& socket) {
  std::string received;
  char bytes[16384];
  while (true) {
    const size_t head = received.find("\r\n\r\n"), field = received.find("Content-Length: ");
    if (head != std::string::npos &&
        received.size() >= head + 4 + std::strtoul(received.c_str() + field + 16, nullptr, 10)) {
      return received;
    }
    const ssize_t size = recv(socket.get(), bytes, sizeof(bytes), 0);
    if (size <= 0) return received;
    received.append(bytes, static_cast<size_t>(size));
  }
}

void HttpLoad::CreateJobs() {
  const std::string body = R"({"model": "busy", "prompt": "a kite"})";
  const std::string request = absl::StrCat(
      "POST /v1/videos", kHost, "Content-Type: application/json\r\nContent-Length: ", body.size(), "\r\n\r\n", body);
  FileDescriptor socket;
  const auto next = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return stopped_ || !due_.empty(); };
  while (true) {
    absl::Time due;
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(&next));
      if (stopped_) return;
      due = due_.front();
      due_.pop_front();
      in_progress_ += 1;
    }
    // The gateway closes a connection that has been idle for 75 s.
    char none;
    const bool closed = !socket.ok() || recv(socket.get(), &none, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
    if (closed) socket = Connect(port_);
    Send(socket, request);
    const std::string reply = AwaitReply(socket);
    const bool made = absl::StartsWith(reply, "HTTP/1.1 200");
    absl::MutexLock lock(&mu_);
    made ? latencies_.push_back(absl::ToDoubleSeconds(absl::Now() - due)) : refused_.push_back(reply);
    in_progress_ -= 1;
  }
}

void HttpLoad::Create(absl::Time due) {
  absl::MutexLock lock(&mu_);
  due_.push_back(due);
}
int HttpLoad::waiting() const {
  absl::MutexLock lock(&mu_);
  return static_cast<int>(due_.size()) + in_progress_;
}
std::vector<double> HttpLoad::latencies() const {
  absl::MutexLock lock(&mu_);
  return latencies_;
}
std::vector<std::string> HttpLoad::refused() const {
  absl::MutexLock lock(&mu_);
  return refused_;
}

}  // namespace kinora
