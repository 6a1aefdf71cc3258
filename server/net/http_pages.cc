#include "server/net/http_pages.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"
#include "server/common/file_error.h"

namespace kinora {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(5);
constexpr int kPauseMilliseconds = 100;
constexpr size_t kLongestHead = 8 << 10;
constexpr char kText[] = "text/plain; charset=utf-8";

std::string Reply(absl::string_view status, absl::string_view content_type, absl::string_view body) {
  return absl::StrCat("HTTP/1.1 ", status, "\r\nContent-Type: ", content_type, "\r\nContent-Length: ", body.size(),
                      "\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n", body);
}

std::string IndexPage(absl::string_view title) {
  const std::string name = absl::StrReplaceAll(title, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
  return absl::StrCat("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>", name,
                      "</title></head>\n<body><h1>", name,
                      "</h1>\n<ul>\n"
                      "<li><a href=\"/metrics\">/metrics</a>, for Prometheus</li>\n"
                      "<li><a href=\"/livez\">/livez</a>, whether this process is alive: 200, or 503 if it must be "
                      "restarted</li>\n"
                      "<li><a href=\"/readyz\">/readyz</a>, whether it takes jobs: 200, or 503 with the reason</li>\n"
                      "</ul></body></html>\n");
}

// Whether the head announces a body.
bool HasBody(const std::vector<absl::string_view>& lines) {
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::pair<absl::string_view, absl::string_view> field = absl::StrSplit(lines[i], absl::MaxSplits(':', 1));
    if (absl::EqualsIgnoreCase(field.first, "transfer-encoding")) return true;
    if (absl::EqualsIgnoreCase(field.first, "content-length")) {
      if (absl::StripAsciiWhitespace(field.second) != "0") return true;
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpPages>> HttpPages::Start(HttpPagesOptions options) {
  std::unique_ptr<HttpPages> pages(new HttpPages(std::move(options)));
  KINORA_ASSIGN_OR_RETURN(pages->listening_,
                          ListeningSockets::Bind("http_address", pages->options_.address, pages->options_.local_only));
  pages->wake_ = FileDescriptor(eventfd(0, EFD_CLOEXEC));
  if (!pages->wake_.ok()) return FileError("http_address", "watch its connections");
  pages->thread_ = std::thread([self = pages.get()] { self->Run(); });
  return pages;
}

HttpPages::~HttpPages() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof(one));
  thread_.join();
}

void HttpPages::Run() {
  while (true) {
    std::vector<pollfd> polled = {{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
    for (const FileDescriptor& listener : listening_.sockets()) {
      polled.push_back({.fd = listener.get(), .events = static_cast<short>(paused_ ? 0 : POLLIN), .revents = 0});
    }
    const size_t first = polled.size();
    for (const Visitor& visitor : visitors_) {
      const bool answered = !visitor.reply.empty() && visitor.sent < visitor.reply.size();
      polled.push_back(
          {.fd = visitor.fd.get(), .events = static_cast<short>(answered ? POLLOUT : POLLIN), .revents = 0});
    }
    int timeout = paused_ ? kPauseMilliseconds : -1;
    if (!visitors_.empty()) {
      const absl::Duration left = absl::Ceil(visitors_.front().end - options_.steady.Now(), absl::Milliseconds(1));
      const int end = static_cast<int>(std::max<int64_t>(absl::ToInt64Milliseconds(left), 0));
      timeout = timeout < 0 ? end : std::min(timeout, end);
    }
    poll(polled.data(), polled.size(), timeout);
    if (polled[0].revents != 0) return;
    paused_ = false;
    size_t i = first;
    const absl::Time now = options_.steady.Now();
    for (auto one = visitors_.begin(); one != visitors_.end(); ++i) {
      bool goes_on = one->end > now;
      if (goes_on && polled[i].revents != 0) goes_on = polled[i].events == POLLOUT ? Write(*one) : Read(*one);
      one = goes_on ? std::next(one) : visitors_.erase(one);
    }
    for (i = 1; i < first; ++i) {
      if (polled[i].revents != 0) Accept(polled[i].fd);
    }
  }
}

void HttpPages::Accept(int listener) {
  for (int i = 0; i < kMaxConnections; ++i) {  // then open connections have their turn
    FileDescriptor accepted(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!accepted.ok()) {
      paused_ = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
      return;
    }
    if (visitors_.size() == kMaxConnections) visitors_.pop_front();
    Visitor& visitor = visitors_.emplace_back();
    visitor.fd = std::move(accepted);
    visitor.end = options_.steady.Now() + kPatience;
  }
}

bool HttpPages::Read(Visitor& visitor) {
  std::array<char, 4096> bytes;
  const ssize_t count = recv(visitor.fd.get(), bytes.data(), bytes.size(), 0);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  if (count == 0) return false;
  // After the reply, read until the client closes: if data were unread at close, the kernel would discard the reply.
  if (!visitor.reply.empty()) return true;
  visitor.head.append(bytes.data(), count);
  const size_t end = visitor.head.find("\r\n\r\n");
  if (end == std::string::npos && visitor.head.size() < kLongestHead) return true;
  visitor.reply = end == std::string::npos || end > kLongestHead
                      ? Reply("431 Request Header Fields Too Large", kText, "request headers are limited to 8 KiB\n")
                      : Answer(std::string_view(visitor.head).substr(0, end));
  return Write(visitor);
}

bool HttpPages::Write(Visitor& visitor) {
  const ssize_t count =
      send(visitor.fd.get(), visitor.reply.data() + visitor.sent, visitor.reply.size() - visitor.sent, MSG_NOSIGNAL);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  visitor.sent += count;
  return visitor.sent < visitor.reply.size() || shutdown(visitor.fd.get(), SHUT_WR) == 0;
}

std::string HttpPages::Answer(std::string_view head) const {
  const std::vector<absl::string_view> lines = absl::StrSplit(absl::string_view(head.data(), head.size()), "\r\n");
  const std::vector<absl::string_view> words = absl::StrSplit(lines[0], ' ');
  if (words.size() != 3 || !absl::StartsWith(words[2], "HTTP/1.")) {
    return Reply("400 Bad Request", kText, "only HTTP/1.1 and HTTP/1.0 are supported\n");
  }
  if (HasBody(lines)) return Reply("413 Content Too Large", kText, "requests must not have a body\n");
  if (words[0] != "GET") return Reply("405 Method Not Allowed\r\nAllow: GET", kText, "only GET is supported\n");
  const absl::string_view path = words[1].substr(0, words[1].find('?'));
  if (path == "/") return Reply("200 OK", "text/html; charset=utf-8", IndexPage(options_.title));
  if (path == "/metrics") return Reply("200 OK", "text/plain; version=0.0.4; charset=utf-8", options_.metrics());
  if (path != "/livez" && path != "/readyz") return Reply("404 Not Found", kText, "no such page\n");
  const absl::Status status = path == "/livez" ? options_.live() : options_.ready();
  if (status.ok()) return Reply("200 OK", kText, "ok\n");
  return Reply("503 Service Unavailable", kText, absl::StrCat(std::string(status.message()), "\n"));
}

}  // namespace kinora
