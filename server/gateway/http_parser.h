// Parses the requests of one connection from bytes in pieces of any size. Boost.Beast parses heads, under stricter
// rules, so that no proxy in front of this server can see other borders between requests than it does (request
// smuggling):
//
// - A length is given once, as Content-Length (digits) or as Transfer-Encoding: chunked (exactly that, HTTP/1.1), never
//   both.
// - Lines end with CRLF; no line continues the one before; no byte is NUL.
// - One Host; the target is a path ("/…").
#ifndef KINORA_SERVER_GATEWAY_HTTP_PARSER_H_
#define KINORA_SERVER_GATEWAY_HTTP_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/gateway/chunk_decoder.h"
#include "server/gateway/http_message.h"

namespace kinora {

struct HttpParserLimits {
  size_t head_bytes = 16 << 10;
  size_t fields = 100;
  uint64_t body_bytes = uint64_t{1} << 40;
};

class HttpParser {
 public:
  explicit HttpParser(HttpParserLimits limits) : limits_(limits) {}

  enum class Result { kNeedMore, kReady, kProblem };

  // Takes a head from the front of `input` once it is there whole. kReady: head() is valid, and its bytes are removed
  // from `input`. kProblem: problem() says what is wrong; the connection must end.
  Result ReadHead(std::string& input);
  const HttpRequestHead& head() const { return head_; }
  const HttpProblem& problem() const { return problem_; }

  // After ReadHead was kReady. Takes body bytes from the front of `input` and appends at most `most` of them to
  // `piece`. kReady: something was appended, or the body has ended (body_ended()).
  Result ReadBody(std::string& input, size_t most, std::string& piece);
  bool body_ended() const { return body_ended_; }

  // Prepares for the next request; the body must have ended.
  void NextRequest();

 private:
  Result Fail(int status, std::string_view code, std::string_view message);
  bool CheckLines(std::string_view head);
  bool CheckField(const HttpField& field);
  bool CheckFields();
  bool CheckTarget(std::string_view target);
  Result ReadChunked(std::string& input, size_t most, std::string& piece);

  const HttpParserLimits limits_;
  ChunkDecoder chunks_;
  HttpRequestHead head_;
  HttpProblem problem_;
  size_t searched_ = 0;         // bytes of the input without the end of a head
  uint64_t body_received_ = 0;  // bytes
  bool body_ended_ = false;
};

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_HTTP_PARSER_H_
