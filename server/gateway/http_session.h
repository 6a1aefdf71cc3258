// One connection of the server, for one request after another. Everything runs on the connection's strand.
#ifndef KINORA_SERVER_GATEWAY_HTTP_SESSION_H_
#define KINORA_SERVER_GATEWAY_HTTP_SESSION_H_

#include <array>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "server/gateway/client_address.h"
#include "server/gateway/gateway_metrics.h"
#include "server/gateway/http_exchange.h"
#include "server/gateway/http_parser.h"
#include "server/gateway/http_times.h"
#include "server/gateway/origin_check.h"
#include "server/gateway/rate_limit.h"
#include "server/net/listen_address.h"

namespace kinora {

// What all sessions share; it outlives them.
struct HttpSessionContext {
  HttpParserLimits parser;
  HttpTimes times;
  const OriginCheck& origins;
  const TrustedProxies& proxies;
  RateLimit& rate;
  HttpHandler handler;
  HttpProblemReply problem_reply;
  GatewayMetrics& metrics;
  boost::asio::ssl::context* tls = nullptr;  // null: plain text
};

class HttpSession : public std::enable_shared_from_this<HttpSession> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;

  // socket: on a strand of its own. local_host: as in OriginCheck.
  HttpSession(HttpSessionContext& context, Socket socket, const SocketAddress& peer, std::string local_host);

  // Any thread.
  void Start();
  void Drain();  // closes the connection once it is idle
  void Close();  // at once
  const SocketAddress& peer() const { return peer_; }

  // For HttpExchange; any thread.
  void SetRoute(std::string route);
  void ReadBody(std::function<void(std::string)> on_piece);
  void Reply(HttpReply reply);
  void Begin(HttpReply head, std::optional<uint64_t> length);
  void Write(std::string piece, std::function<void()> on_sent);
  void End();
  void Abort();
  void SetOnLeft(std::function<void()> on_left);
  void SetOnDrain(std::function<void()> on_drain);

 private:
  enum class State {
    kHead,      // waiting for a request or reading its head
    kExchange,  // a handler has the request
    kLinger,    // everything is sent; waiting for the client to close
    kClosed,
  };
  struct Piece {
    std::string bytes;
    std::function<void()> on_sent;
  };

  template <typename Task>
  void OnStrand(Task task);
  void Read();
  void OnRead(size_t count, bool failed);
  void Advance();
  void AdvanceHead();
  void AdvanceBody();
  void StartExchange();
  void Leave();  // tells the handler
  // Replies, unless a reply has begun, and ends the connection. reason: of the metric.
  void RejectAndClose(const HttpProblem& problem, const char* reason, int64_t retry_seconds = 0);
  void SettleBody();
  void SendReply(const HttpReply& reply);
  std::string LengthFields(std::optional<uint64_t> length);
  void Send(std::string bytes, std::function<void()> on_sent);
  void SendNext();
  void OnSent(size_t count, bool failed);
  void EndExchange();
  void Linger();
  void CloseNow();
  void SetReadTimer(absl::Duration time, void (HttpSession::*on_time)());
  void StopReadTimer();
  void OnIdle() { CloseNow(); }
  void OnHeadLate();
  void OnBodyLate();

  HttpSessionContext& context_;
  Socket socket_;
  std::optional<boost::asio::ssl::stream<Socket&>> tls_;
  const SocketAddress peer_;
  const std::string local_host_;
  boost::asio::steady_timer read_timer_, write_timer_;

  State state_ = State::kHead;
  HttpParser parser_;
  std::array<char, 16 << 10> received_;
  std::string input_;  // received and not yet parsed
  bool reading_ = false, draining_ = false;
  bool head_began_ = false;  // its first byte has arrived
  bool ends_ = false;        // the connection ends with this exchange
  int64_t timers_ = 0;       // read timers that were set
  bool read_timer_set_ = false;
  size_t lingered_ = 0;

  // The state of the current exchange.
  std::function<void(std::string)> on_piece_;  // set: a handler waits for the body
  size_t body_since_timer_ = 0;
  std::function<void()> on_left_, on_drain_;
  std::string route_;
  int status_ = 0;
  absl::Time began_;
  bool begun_ = false;  // the reply has
  bool ended_ = false;  // for the handler; perhaps not all is sent
  bool continue_sent_ = false, chunked_ = false;
  std::optional<uint64_t> length_left_;  // of the reply's body

  std::deque<Piece> out_;
  size_t sent_ = 0;  // of out_.front()
  bool sending_ = false;
  int64_t writes_ = 0;  // that were begun
};

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_HTTP_SESSION_H_
