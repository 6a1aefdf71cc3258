// A blocking TCP connection that sends exactly the bytes of a test.
#ifndef KINORA_TESTS_SERVER_GATEWAY_HTTP_CONNECTION_H_
#define KINORA_TESTS_SERVER_GATEWAY_HTTP_CONNECTION_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "engine/base/file_descriptor.h"

namespace kinora {

class HttpConnection {
 public:
  explicit HttpConnection(int port, int receive_buffer = 0) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval patience{.tv_sec = 30, .tv_usec = 0};
    EXPECT_EQ(setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    if (receive_buffer > 0) setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }

  // False: the server has closed the connection.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count < 0) return false;
      bytes.remove_prefix(static_cast<size_t>(count));
    }
    return true;
  }

  // Everything until the server closes.
  std::string ReadAll() {
    while (Receive()) continue;
    return std::exchange(received_, "");
  }

  // False: the server closes before it has sent `text`.
  bool ReadUntil(std::string_view text) {
    while (received_.find(text) == std::string::npos && Receive()) continue;
    return received_.find(text) != std::string::npos;
  }

  // One reply with a Content-Length, or a head alone (HEAD, 204, 304, 100).
  std::string ReadReply(bool head_alone = false) {
    size_t end;
    while ((end = received_.find("\r\n\r\n")) == std::string::npos && Receive()) continue;
    if (end == std::string::npos) return std::exchange(received_, "");
    const size_t field = received_.find("Content-Length: ");
    const bool has_body = !head_alone && field != std::string::npos && field < end;
    const size_t size = end + 4 + (has_body ? std::strtoul(received_.c_str() + field + 16, nullptr, 10) : 0);
    while (received_.size() < size && Receive()) continue;
    std::string reply = received_.substr(0, size);
    received_.erase(0, size);
    return reply;
  }

  void Close() { fd_ = FileDescriptor(); }

 private:
  bool Receive() {
    char bytes[65536];
    const ssize_t count = recv(fd_.get(), bytes, sizeof(bytes), 0);
    if (count > 0) received_.append(bytes, static_cast<size_t>(count));
    return count > 0;
  }

  FileDescriptor fd_;
  std::string received_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_SERVER_GATEWAY_HTTP_CONNECTION_H_
