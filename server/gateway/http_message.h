// Requests and replies of HTTP/1.1, without sockets.
#ifndef KINORA_SERVER_GATEWAY_HTTP_MESSAGE_H_
#define KINORA_SERVER_GATEWAY_HTTP_MESSAGE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kinora {

struct HttpField {
  std::string name, value;
};

struct HttpRequestHead {
  std::string method;  // "GET"
  std::string path;    // as sent, without the query; begins with "/"
  std::string query;   // as sent, without "?"
  std::vector<HttpField> fields;
  bool is_http_1_0 = false;
  bool keep_alive = true;
  bool expects_continue = false;
  bool has_body = false;
  std::optional<uint64_t> content_length;  // absent: the body is chunked

  // Returns the value of the first field with this name, in any case; nullptr if there is none.
  const std::string* Find(std::string_view name) const;
};

struct HttpReply {
  int status = 200;
  std::vector<HttpField> fields;
  std::string body;
  std::optional<uint64_t> content_length;  // of a reply to HEAD, whose body is empty
};

// An error of HTTP itself. `code` is a word for programs, `message` a sentence that says what to do.
struct HttpProblem {
  int status = 400;
  std::string code, message;
};
// Makes the reply to a problem.
using HttpProblemReply = std::function<HttpReply(const HttpProblem&)>;

// "404" -> "Not Found"; "" for an unknown status.
std::string_view HttpReason(int status);

// Percent-decodes the fields of a query. InvalidArgument: a malformed escape, a control character, not UTF-8, or a name
// that occurs twice.
absl::StatusOr<std::map<std::string, std::string>> ParseQuery(std::string_view query);

// Returns the head of a reply as it is sent, with its empty line: the given fields, Date, the security fields that they
// do not contain, and nothing about the length or the connection. Control characters in values become spaces.
std::string HttpReplyHead(int status, const std::vector<HttpField>& fields);

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_HTTP_MESSAGE_H_
