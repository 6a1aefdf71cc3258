// One request and its reply, as a handler sees them. A handler is called with the exchange and answers at once or
// later, from any thread: every call here returns at once and takes effect in the order of the calls. Callbacks run on
// a thread of the server, one at a time, and must not block.
//
// A handler must end each exchange (Reply, End or Abort) and must not keep it for longer; destroying the last reference
// to one that has not ended aborts it. After on_left, calls have no effect and callbacks given to them may never run.
#ifndef KINORA_SERVER_GATEWAY_HTTP_EXCHANGE_H_
#define KINORA_SERVER_GATEWAY_HTTP_EXCHANGE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/gateway/http_message.h"

namespace kinora {

class HttpSession;

class HttpExchange {
 public:
  static constexpr size_t kPieceBytes = 64 << 10;

  HttpExchange(std::shared_ptr<HttpSession> session, HttpRequestHead head, std::string client);
  ~HttpExchange();  // NOLINT(bugprone-exception-escape): only std::bad_alloc, which ends the process anyway
  HttpExchange(const HttpExchange&) = delete;
  HttpExchange& operator=(const HttpExchange&) = delete;

  const HttpRequestHead& head() const { return head_; }
  // As ClientAddress, behind trusted proxies too (client_address.h).
  const std::string& client() const { return client_; }

  // For metrics: a label from a fixed list, such as "/v1/videos/{id}". Call before the exchange ends, if at all.
  void SetRoute(std::string_view route);

  // Calls back with the next piece of the body, of at most kPieceBytes; empty at its end. One call at a time. If the
  // body is malformed or too slow, the server replies itself, on_left runs and this callback does not.
  void ReadBody(std::function<void(std::string piece)> on_piece);

  // The whole reply. For HEAD, its body is not sent.
  void Reply(HttpReply reply);

  // A reply in pieces: its head (the body of `head` is ignored), pieces one after another, and End. length: of the
  // whole body; absent: it is chunked, or ends with the connection for a client of HTTP/1.0. on_sent runs once the
  // kernel has taken the piece; write the next one then, so that a slow client holds one piece.
  void Begin(HttpReply head, std::optional<uint64_t> length);
  void Write(std::string piece, std::function<void()> on_sent);
  void End();
  // Ends the connection, so that the client notices that the reply is incomplete.
  void Abort();

  // on_left runs once, if the client leaves or the connection breaks before the exchange ends.
  void SetOnLeft(std::function<void()> on_left);
  // on_drain runs once, if the server is to stop before the exchange ends, at once if it already is. For endless
  // replies, which should End.
  void SetOnDrain(std::function<void()> on_drain);

 private:
  const std::shared_ptr<HttpSession> session_;
  const HttpRequestHead head_;
  const std::string client_;
  std::atomic<bool> ended_ = false;
};

using HttpHandler = std::function<void(std::shared_ptr<HttpExchange> exchange)>;

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_HTTP_EXCHANGE_H_
