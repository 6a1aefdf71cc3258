#include "server/gateway/http_session.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"

namespace kinora {
namespace {

using boost::system::error_code;

constexpr size_t kInputBytes = 64 << 10;  // read ahead of the handler
constexpr size_t kBodyStep = 16 << 10;    // HttpTimes.body
constexpr size_t kLingerBytes = 1 << 20;  // discarded after the last reply
constexpr size_t kWriteBytes = 64 << 10;  // HttpTimes.write
constexpr char kContinue[] = "HTTP/1.1 100 Continue\r\n\r\n";

}  // namespace

HttpSession::HttpSession(HttpSessionContext& context, Socket socket, const SocketAddress& peer, std::string local_host)
    : context_(context),
      socket_(std::move(socket)),
      peer_(peer),
      local_host_(std::move(local_host)),
      read_timer_(socket_.get_executor()),
      write_timer_(socket_.get_executor()),
      parser_(context.parser) {
  if (context.tls != nullptr) tls_.emplace(socket_, *context.tls);
}

template <typename Task>
void HttpSession::OnStrand(Task task) {
  boost::asio::post(socket_.get_executor(),
                    [self = shared_from_this(), task = std::move(task)]() mutable { task(*self); });
}

void HttpSession::Start() {
  OnStrand([](HttpSession& self) {
    if (!self.tls_) return self.Advance();
    self.SetReadTimer(self.context_.times.handshake, &HttpSession::OnIdle);
    self.tls_->async_handshake(
        boost::asio::ssl::stream_base::server,
        [me = self.shared_from_this()](const error_code& error) { return error ? me->CloseNow() : me->Advance(); });
  });
}

void HttpSession::Drain() {
  OnStrand([](HttpSession& self) {
    self.draining_ = true;
    if (self.state_ == State::kHead && self.input_.empty()) return self.CloseNow();
    if (self.on_drain_) std::exchange(self.on_drain_, nullptr)();
  });
}

void HttpSession::Close() {
  OnStrand([](HttpSession& self) { self.CloseNow(); });
}

// Reading

void HttpSession::Read() {
  if (reading_ || state_ == State::kClosed || input_.size() >= kInputBytes) return;
  reading_ = true;
  const auto done = [self = shared_from_this()](const error_code& error, size_t count) {
    self->reading_ = false;
    self->OnRead(count, static_cast<bool>(error));
  };
  const auto buffer = boost::asio::buffer(received_);
  return tls_ ? tls_->async_read_some(buffer, done) : socket_.async_read_some(buffer, done);
}

void HttpSession::OnRead(size_t count, bool failed) {
  if (state_ == State::kClosed) return;
  if (failed) return CloseNow();
  if (state_ == State::kLinger) {
    lingered_ += count;
    return lingered_ > kLingerBytes ? CloseNow() : Read();
  }
  input_.append(received_.data(), count);
  Advance();
}

void HttpSession::Advance() {
  if (state_ == State::kHead) {
    AdvanceHead();
  } else if (state_ == State::kExchange) {
    AdvanceBody();
  }
  Read();  // during an exchange too: it notices that the client leaves
}

void HttpSession::AdvanceHead() {
  switch (parser_.ReadHead(input_)) {
    case HttpParser::Result::kNeedMore:
      if (input_.empty()) {
        if (draining_) return CloseNow();
        SetReadTimer(context_.times.idle, &HttpSession::OnIdle);
      } else if (!std::exchange(head_began_, true)) {
        SetReadTimer(context_.times.head, &HttpSession::OnHeadLate);
      }
      return;
    case HttpParser::Result::kProblem:
      return RejectAndClose(parser_.problem(), "malformed");
    case HttpParser::Result::kReady:
      return StartExchange();
  }
}

void HttpSession::StartExchange() {
  StopReadTimer();
  state_ = State::kExchange;
  head_began_ = continue_sent_ = ended_ = begun_ = chunked_ = false;
  body_since_timer_ = 0;
  length_left_.reset();
  status_ = 0;
  route_ = "other";
  began_ = Clock::Steady().Now();
  const HttpRequestHead& head = parser_.head();
  if (const auto problem = context_.origins.Check(head, local_host_)) {
    return RejectAndClose(*problem, problem->status == 421 ? "host" : "origin");
  }
  std::string client = context_.proxies.ClientOf(peer_, head.fields);
  const absl::Duration wait = context_.rate.Take(client);
  if (wait > absl::ZeroDuration()) {
    const int64_t seconds = absl::ToInt64Seconds(absl::Ceil(wait, absl::Seconds(1)));
    return RejectAndClose({429, "rate_limit", absl::StrCat("too many requests; try again in ", seconds, " s")}, "rate",
                          seconds);
  }
  context_.handler(std::make_shared<HttpExchange>(shared_from_this(), head, std::move(client)));
}

void HttpSession::AdvanceBody() {
  if (!on_piece_) return;
  if (parser_.head().expects_continue && !parser_.body_ended() && !std::exchange(continue_sent_, true)) {
    Send(kContinue, nullptr);
  }
  std::string piece;
  switch (parser_.ReadBody(input_, HttpExchange::kPieceBytes, piece)) {
    case HttpParser::Result::kNeedMore:
      if (!read_timer_set_) SetReadTimer(context_.times.body, &HttpSession::OnBodyLate);
      return;
    case HttpParser::Result::kProblem:
      return RejectAndClose(parser_.problem(), "malformed");
    case HttpParser::Result::kReady:
      break;
  }
  body_since_timer_ += piece.size();
  if (body_since_timer_ >= kBodyStep || parser_.body_ended()) {
    body_since_timer_ = 0;
    StopReadTimer();
  }
  context_.metrics.http_received_body_bytes_total.Increment(static_cast<double>(piece.size()));
  std::exchange(on_piece_, nullptr)(std::move(piece));
}

void HttpSession::OnHeadLate() {
  RejectAndClose({408, "request_timeout", "the headers of the request did not arrive in time"}, "slow");
}

void HttpSession::OnBodyLate() {
  body_since_timer_ = 0;
  if (on_piece_) RejectAndClose({408, "request_timeout", "the body of the request arrives too slowly"}, "slow");
}

void HttpSession::SetReadTimer(absl::Duration time, void (HttpSession::*on_time)()) {
  StopReadTimer();
  read_timer_set_ = true;
  read_timer_.expires_after(absl::ToChronoNanoseconds(time));
  read_timer_.async_wait([self = shared_from_this(), on_time, timer = timers_](const error_code&) {
    if (self->timers_ != timer || self->state_ == State::kClosed) return;
    self->StopReadTimer();
    ((*self).*on_time)();
  });
}

void HttpSession::StopReadTimer() {
  timers_ += 1;  // a wait that has already ended does nothing
  read_timer_set_ = false;
  read_timer_.cancel();
}

// Sending

void HttpSession::Send(std::string bytes, std::function<void()> on_sent) {
  out_.push_back({std::move(bytes), std::move(on_sent)});
  SendNext();
}

void HttpSession::SendNext() {
  while (!sending_ && !out_.empty() && sent_ == out_.front().bytes.size()) {
    const auto on_sent = std::move(out_.front().on_sent);
    out_.pop_front();
    sent_ = 0;
    if (on_sent) on_sent();
  }
  if (sending_ || out_.empty() || state_ == State::kClosed) return;
  sending_ = true;
  const auto self = shared_from_this();
  write_timer_.expires_after(absl::ToChronoNanoseconds(context_.times.write));
  write_timer_.async_wait([self, write = ++writes_](const error_code& error) {
    if (error || !self->sending_ || self->writes_ != write) return;
    self->context_.metrics.http_rejected_total.Add({{"reason", "slow"}}).Increment();
    self->CloseNow();
  });
  const std::string& bytes = out_.front().bytes;
  const auto buffer = boost::asio::buffer(bytes.data() + sent_, std::min(bytes.size() - sent_, kWriteBytes));
  const auto done = [self](const error_code& error, size_t count) { self->OnSent(count, static_cast<bool>(error)); };
  return tls_ ? boost::asio::async_write(*tls_, buffer, done) : boost::asio::async_write(socket_, buffer, done);
}

void HttpSession::OnSent(size_t count, bool failed) {
  sending_ = false;
  write_timer_.cancel();
  context_.metrics.http_sent_bytes_total.Increment(static_cast<double>(count));
  if (failed || state_ == State::kClosed) {
    out_.clear();
    return CloseNow();
  }
  sent_ += count;
  SendNext();
}

// Reads what has arrived of a body that the handler did not want, and decides whether another request can follow.
void HttpSession::SettleBody() {
  if (ends_) return;
  std::string discarded;
  while (!parser_.body_ended() && parser_.ReadBody(input_, kInputBytes, discarded) == HttpParser::Result::kReady) {
    discarded.clear();
  }
  ends_ |= draining_ || !parser_.head().keep_alive || !parser_.body_ended();
}

std::string HttpSession::LengthFields(std::optional<uint64_t> length) {
  SettleBody();
  chunked_ = !length && !parser_.head().is_http_1_0;
  ends_ |= !length && !chunked_;
  std::string fields;
  if (length && status_ != 204 && status_ != 304) absl::StrAppend(&fields, "Content-Length: ", *length, "\r\n");
  if (chunked_) absl::StrAppend(&fields, "Transfer-Encoding: chunked\r\n");
  return absl::StrCat(fields, "Connection: ", ends_ ? "close" : "keep-alive", "\r\n\r\n");
}

void HttpSession::SendReply(const HttpReply& reply) {
  ended_ = begun_ = true;
  status_ = reply.status;
  std::string bytes = HttpReplyHead(reply.status, reply.fields);
  bytes += LengthFields(reply.content_length.value_or(reply.body.size()));
  if (parser_.head().method != "HEAD") bytes += reply.body;
  Send(std::move(bytes), [this] { EndExchange(); });
}

void HttpSession::RejectAndClose(const HttpProblem& problem, const char* reason, int64_t retry_seconds) {
  context_.metrics.http_rejected_total.Add({{"reason", reason}}).Increment();
  Leave();
  if (state_ == State::kHead) {
    route_ = "other";
    began_ = Clock::Steady().Now();
  } else if (begun_) {
    return CloseNow();
  }
  state_ = State::kExchange;
  ends_ = true;
  on_piece_ = nullptr;
  HttpReply reply = context_.problem_reply(problem);
  if (retry_seconds > 0) reply.fields.push_back({"Retry-After", absl::StrCat(retry_seconds)});
  SendReply(reply);
}

void HttpSession::EndExchange() {
  if (state_ != State::kExchange) return;
  const std::string code = absl::StrCat(status_);
  context_.metrics.http_requests_total.Add({{"route", route_}, {"code", code}}).Increment();
  context_.metrics.ObserveSeconds(route_, absl::ToDoubleSeconds(Clock::Steady().Now() - began_));
  on_left_ = on_drain_ = nullptr;
  on_piece_ = nullptr;
  StopReadTimer();
  if (ends_) return Linger();
  state_ = State::kHead;
  parser_.NextRequest();
  Advance();
}

// Closes this side and waits for the client's: closing at once would make the kernel discard the reply if the client
// has sent more than was read. Without TLS's close_notify, since every reply has its length.
void HttpSession::Linger() {
  state_ = State::kLinger;
  error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  input_.clear();
  SetReadTimer(context_.times.linger, &HttpSession::OnIdle);
  Read();
}

void HttpSession::Leave() {
  const bool open = state_ == State::kExchange && !std::exchange(ended_, true);
  const auto on_left = std::exchange(on_left_, nullptr);
  on_drain_ = nullptr;
  on_piece_ = nullptr;
  if (open && on_left) on_left();
}

void HttpSession::CloseNow() {
  if (state_ == State::kClosed) return;
  Leave();
  state_ = State::kClosed;
  StopReadTimer();
  write_timer_.cancel();
  if (!sending_) out_.clear();  // otherwise OnSent does, since the pending operation may still use the bytes
  error_code ignored;
  socket_.close(ignored);
}

// Calls of HttpExchange. `ended_`: the exchange has ended for its handler.

void HttpSession::SetRoute(std::string route) {
  OnStrand([route = std::move(route)](HttpSession& self) mutable { self.route_ = std::move(route); });
}

void HttpSession::ReadBody(std::function<void(std::string)> on_piece) {
  OnStrand([on_piece = std::move(on_piece)](HttpSession& self) mutable {
    if (self.state_ != State::kExchange || self.ended_) return;
    self.on_piece_ = std::move(on_piece);
    self.Advance();
  });
}

void HttpSession::Reply(HttpReply reply) {
  OnStrand([reply = std::move(reply)](HttpSession& self) {
    if (self.state_ == State::kExchange && !self.ended_) self.SendReply(reply);
  });
}

void HttpSession::Begin(HttpReply head, std::optional<uint64_t> length) {
  OnStrand([head = std::move(head), length](HttpSession& self) {
    if (self.state_ != State::kExchange || self.ended_) return;
    self.begun_ = true;
    self.status_ = head.status;
    self.length_left_ = length;
    self.Send(HttpReplyHead(head.status, head.fields) + self.LengthFields(length), nullptr);
  });
}

void HttpSession::Write(std::string piece, std::function<void()> on_sent) {
  OnStrand([piece = std::move(piece), on_sent = std::move(on_sent)](HttpSession& self) mutable {
    if (self.state_ != State::kExchange || self.ended_) return;
    if (self.length_left_ && piece.size() > *self.length_left_) return self.CloseNow();
    if (self.length_left_) *self.length_left_ -= piece.size();
    if (self.chunked_ && !piece.empty()) piece = absl::StrCat(absl::Hex(piece.size()), "\r\n", piece, "\r\n");
    self.Send(std::move(piece), std::move(on_sent));
  });
}

void HttpSession::End() {
  OnStrand([](HttpSession& self) {
    if (self.state_ != State::kExchange || self.ended_) return;
    if (!self.begun_ || self.length_left_.value_or(0) > 0) return self.CloseNow();
    self.ended_ = true;
    self.Send(self.chunked_ ? "0\r\n\r\n" : "", [&self] { self.EndExchange(); });
  });
}

void HttpSession::Abort() {
  OnStrand([](HttpSession& self) {
    if (self.state_ == State::kExchange && !self.ended_) self.CloseNow();
  });
}

void HttpSession::SetOnLeft(std::function<void()> on_left) {
  OnStrand([on_left = std::move(on_left)](HttpSession& self) mutable {
    if (self.state_ != State::kExchange || self.ended_) return on_left();
    self.on_left_ = std::move(on_left);
  });
}

void HttpSession::SetOnDrain(std::function<void()> on_drain) {
  OnStrand([on_drain = std::move(on_drain)](HttpSession& self) mutable {
    if (self.state_ != State::kExchange || self.ended_) return;
    if (self.draining_) return on_drain();
    self.on_drain_ = std::move(on_drain);
  });
}

HttpExchange::HttpExchange(std::shared_ptr<HttpSession> session, HttpRequestHead head, std::string client)
    : session_(std::move(session)), head_(std::move(head)), client_(std::move(client)) {}
// NOLINTNEXTLINE(bugprone-exception-escape): only std::bad_alloc, which ends the process anyway
HttpExchange::~HttpExchange() {
  if (!ended_) session_->Abort();
}

void HttpExchange::SetRoute(std::string_view route) { session_->SetRoute(std::string(route)); }
void HttpExchange::ReadBody(std::function<void(std::string)> on_piece) { session_->ReadBody(std::move(on_piece)); }
void HttpExchange::Reply(HttpReply reply) {
  ended_ = true;
  session_->Reply(std::move(reply));
}
void HttpExchange::Begin(HttpReply head, std::optional<uint64_t> length) { session_->Begin(std::move(head), length); }
void HttpExchange::Write(std::string piece, std::function<void()> on_sent) {
  session_->Write(std::move(piece), std::move(on_sent));
}
void HttpExchange::End() {
  ended_ = true;
  session_->End();
}
void HttpExchange::Abort() {
  ended_ = true;
  session_->Abort();
}
void HttpExchange::SetOnLeft(std::function<void()> on_left) { session_->SetOnLeft(std::move(on_left)); }
void HttpExchange::SetOnDrain(std::function<void()> on_drain) { session_->SetOnDrain(std::move(on_drain)); }

}  // namespace kinora
