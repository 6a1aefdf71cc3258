#include "tests/testing/cutting_proxy.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "engine/base/check.h"

namespace kinora {
namespace {

sockaddr_in Local(int port) {
  return {.sin_family = AF_INET,
          .sin_port = htons(static_cast<uint16_t>(port)),
          .sin_addr = {htonl(INADDR_LOOPBACK)},
          .sin_zero = {}};
}

bool SendAll(int file, const std::string& bytes) {
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t n = send(file, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return false;
    sent += static_cast<size_t>(n);
  }
  return true;
}

std::string Receive(int file) {
  char buffer[1 << 16];
  const ssize_t n = recv(file, buffer, sizeof buffer, 0);
  return n <= 0 ? "" : std::string(buffer, static_cast<size_t>(n));
}

}  // namespace

CuttingProxy::CuttingProxy(int server_port) : server_port_(server_port) {
  listener_ = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = Local(0);
  socklen_t size = sizeof address;
  KINORA_CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0 && listen(listener_, 100) == 0);
  KINORA_CHECK(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { Accept(); });
}

CuttingProxy::~CuttingProxy() {
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  CutAll();
  std::list<Connection> ending;
  {
    absl::MutexLock lock(&mu_);
    ending.swap(connections_);
  }
  for (Connection& connection : ending) {
    connection.thread.join();
    close(connection.client);
    close(connection.server);
  }
  close(listener_);
}

void CuttingProxy::CutAt(int message, Cut how) {
  absl::MutexLock lock(&mu_);
  messages_ = 0;
  cut_at_ = message;
  how_ = how;
  has_cut_ = false;
}

bool CuttingProxy::has_cut() const {
  absl::MutexLock lock(&mu_);
  return has_cut_;
}

void CuttingProxy::CutAll() {
  absl::MutexLock lock(&mu_);
  for (const Connection& connection : connections_) {
    shutdown(connection.client, SHUT_RDWR);
    shutdown(connection.server, SHUT_RDWR);
  }
}

void CuttingProxy::SetAway(bool away) {
  {
    absl::MutexLock lock(&mu_);
    away_ = away;
  }
  if (away) CutAll();
}

void CuttingProxy::Accept() {
  while (true) {
    const int client = accept(listener_, nullptr, nullptr);
    if (client < 0) return;
    const int server = socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in address = Local(server_port_);
    absl::MutexLock lock(&mu_);
    if (away_ || connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      close(client);
      close(server);
      continue;
    }
    for (const int file : {client, server}) {  // small messages, each of which is waited for
      constexpr int kYes = 1;
      setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &kYes, sizeof kYes);
    }
    Connection& connection = connections_.emplace_back();
    connection.client = client;
    connection.server = server;
    connection.thread = std::thread([this, &connection] { Carry(connection); });
  }
}

void CuttingProxy::Carry(Connection& connection) {
  bool carries = true;
  while (carries) {
    pollfd files[] = {{connection.client, POLLIN, 0}, {connection.server, POLLIN, 0}};
    if (poll(files, 2, -1) < 0) continue;
    if (files[1].revents != 0) {
      const std::string bytes = Receive(connection.server);
      carries = !bytes.empty() && !connection.loses_answers && SendAll(connection.client, bytes);
    }
    if (carries && !connection.loses_answers && files[0].revents != 0) {
      const std::string bytes = Receive(connection.client);
      connection.unread += bytes;
      carries = !bytes.empty() && Forward(connection);
    }
  }
  shutdown(connection.client, SHUT_RDWR);
  shutdown(connection.server, SHUT_RDWR);
}

bool CuttingProxy::Forward(Connection& connection) {
  std::string& unread = connection.unread;
  while (true) {
    const size_t type = connection.started ? 1 : 0;
    if (unread.size() < type + 4) return true;
    uint32_t length = 0;
    std::memcpy(&length, unread.data() + type, sizeof length);
    const size_t size = type + ntohl(length);
    if (unread.size() < size) return true;
    const std::string message = unread.substr(0, size);
    unread.erase(0, size);
    connection.started = true;
    if (!Send(connection, message)) return false;
  }
}

bool CuttingProxy::Send(Connection& connection, const std::string& message) {
  Cut how = Cut::kBefore;
  {
    absl::MutexLock lock(&mu_);
    messages_ += 1;
    if (messages_ != cut_at_) return SendAll(connection.server, message);
    has_cut_ = true;
    how = how_;
  }
  if (how == Cut::kBefore || !SendAll(connection.server, message)) return false;
  // What belongs to the message in the same packet, such as Sync, goes with it: without that there is no answer.
  const bool follows = how == Cut::kAnswer && SendAll(connection.server, connection.unread);
  connection.loses_answers = follows;
  return follows;
}

}  // namespace kinora
