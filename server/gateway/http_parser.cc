#include "server/gateway/http_parser.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check.h"

namespace kinora {
namespace {

namespace http = boost::beast::http;

constexpr std::string_view kHeadEnd = "\r\n\r\n";

bool IsPlain(char c) { return c > ' ' && c < 0x7f; }

}  // namespace

HttpParser::Result HttpParser::Fail(int status, std::string_view code, std::string_view message) {
  problem_ = {.status = status, .code = std::string(code), .message = std::string(message)};
  return Result::kProblem;
}

void HttpParser::NextRequest() {
  KINORA_CHECK(body_ended_);
  chunks_ = {};
  head_ = {};
  searched_ = 0;
  body_received_ = 0;
  body_ended_ = false;
}

bool HttpParser::CheckLines(std::string_view head) {
  size_t lines = 0;
  for (size_t i = 0; i < head.size(); ++i) {
    const bool line_end = head[i] == '\r' && i + 1 < head.size() && head[i + 1] == '\n';
    if (line_end) {
      lines += 1;
      i += 1;
      const char next = i + 1 < head.size() ? head[i + 1] : 'x';
      if (next == ' ' || next == '\t') {
        Fail(400, "bad_header", "a header line continues the one before it; send each header on one line");
        return false;
      }
    } else if (head[i] == '\r' || head[i] == '\n' || head[i] == '\0') {
      Fail(400, "bad_header", "the request has a control character where a line must end with CR LF");
      return false;
    }
  }
  if (lines > limits_.fields + 2) {
    Fail(431, "too_many_headers", absl::StrCat("a request has at most ", limits_.fields, " headers"));
    return false;
  }
  return true;
}

bool HttpParser::CheckTarget(std::string_view target) {
  if (target.empty() || target[0] != '/' || !std::all_of(target.begin(), target.end(), IsPlain)) {
    Fail(400, "bad_target", "the request target must be a path that begins with /");
    return false;
  }
  const size_t mark = target.find('?');
  head_.path = std::string(target.substr(0, mark));
  if (mark != std::string_view::npos) head_.query = std::string(target.substr(mark + 1));
  return true;
}

bool HttpParser::CheckField(const HttpField& field) {
  const absl::string_view name = field.name;
  if (absl::EqualsIgnoreCase(name, "content-length")) {
    const bool digits = field.value.find_first_not_of("0123456789") == std::string::npos;
    if (digits && !field.value.empty() && field.value.size() <= 18) return true;
    Fail(400, "bad_content_length", "Content-Length must be a number of bytes");
    return false;
  }
  if (absl::EqualsIgnoreCase(name, "transfer-encoding")) {
    if (absl::EqualsIgnoreCase(field.value, "chunked")) return true;
    Fail(501, "bad_transfer_encoding", "the only supported Transfer-Encoding is chunked");
    return false;
  }
  if (!absl::EqualsIgnoreCase(name, "expect")) return true;
  head_.expects_continue = !head_.is_http_1_0;
  if (absl::EqualsIgnoreCase(field.value, "100-continue")) return true;
  Fail(417, "bad_expect", "the only supported Expect is 100-continue");
  return false;
}

// The rules that Boost.Beast does not have. Beast takes "Transfer-Encoding: gzip" for a request without a body, merges
// equal lengths and accepts lists of them.
bool HttpParser::CheckFields() {
  const auto count = [this](absl::string_view name) {
    return std::count_if(head_.fields.begin(), head_.fields.end(),
                         [&](const HttpField& field) { return absl::EqualsIgnoreCase(field.name, name); });
  };
  for (const HttpField& field : head_.fields) {
    if (!CheckField(field)) return false;
  }
  const auto encodings = count("transfer-encoding");
  if (count("content-length") + encodings > 1 || (encodings == 1 && head_.is_http_1_0)) {
    Fail(400, "ambiguous_length", "a request has one Content-Length, or in HTTP/1.1 Transfer-Encoding: chunked");
  } else if (count("host") != 1) {
    Fail(400, "bad_host", "a request must have exactly one Host");
  } else if (count("authorization") > 1) {
    Fail(400, "bad_authorization", "a request has at most one Authorization");
  } else {
    return true;
  }
  return false;
}

HttpParser::Result HttpParser::ReadHead(std::string& input) {
  const size_t from = searched_ < kHeadEnd.size() ? 0 : searched_ - kHeadEnd.size();
  const size_t end = input.find(kHeadEnd, from);
  searched_ = input.size();
  const size_t size = end == std::string::npos ? input.size() : end + kHeadEnd.size();
  if (size > limits_.head_bytes) {
    return Fail(431, "headers_too_large",
                absl::StrCat("the headers of a request have at most ", limits_.head_bytes, " bytes"));
  }
  if (end == std::string::npos) return Result::kNeedMore;
  if (!CheckLines(std::string_view(input).substr(0, size))) return Result::kProblem;

  http::request_parser<http::empty_body> parser;
  parser.header_limit(static_cast<uint32_t>(limits_.head_bytes + 1));
  parser.body_limit(limits_.body_bytes);
  boost::beast::error_code error;
  const size_t used = parser.put(boost::asio::buffer(input.data(), size), error);
  if (error == http::error::body_limit) {
    return Fail(413, "body_too_large", absl::StrCat("a body has at most ", limits_.body_bytes, " bytes"));
  }
  if (error == http::error::bad_version) return Fail(400, "bad_version", "only HTTP/1.1 and HTTP/1.0 are supported");
  if (error || used != size || !parser.is_header_done()) {
    return Fail(400, "bad_request", absl::StrCat("the request is not valid HTTP: ", error.message()));
  }
  const auto& message = parser.get();
  head_ = {.method = std::string(message.method_string()),
           .is_http_1_0 = message.version() == 10,
           .keep_alive = parser.keep_alive()};
  for (const auto& field : message) {
    head_.fields.push_back({std::string(field.name_string()), std::string(field.value())});
  }
  if (!CheckTarget(std::string(message.target())) || !CheckFields()) return Result::kProblem;
  if (!parser.chunked()) head_.content_length = parser.content_length().value_or(0);
  head_.has_body = head_.content_length != uint64_t{0};
  body_ended_ = !head_.has_body;
  input.erase(0, size);
  return Result::kReady;
}

HttpParser::Result HttpParser::ReadBody(std::string& input, size_t most, std::string& piece) {
  if (body_ended_) return Result::kReady;
  if (!head_.content_length) return ReadChunked(input, most, piece);
  const uint64_t left = *head_.content_length - body_received_;
  const size_t count = static_cast<size_t>(std::min<uint64_t>({left, input.size(), most}));
  piece.append(input, 0, count);
  input.erase(0, count);
  body_received_ += count;
  body_ended_ = body_received_ == *head_.content_length;
  return count > 0 ? Result::kReady : Result::kNeedMore;
}

HttpParser::Result HttpParser::ReadChunked(std::string& input, size_t most, std::string& piece) {
  const size_t before = piece.size();
  const bool valid = chunks_.Decode(input, most, piece);
  body_received_ += piece.size() - before;
  body_ended_ = chunks_.ended();
  if (body_received_ > limits_.body_bytes) {
    return Fail(413, "body_too_large", absl::StrCat("a body has at most ", limits_.body_bytes, " bytes"));
  }
  if (!valid) return Fail(400, "bad_chunk", "the chunked body is malformed");
  return body_ended_ || piece.size() > before ? Result::kReady : Result::kNeedMore;
}

}  // namespace kinora
