// The Range of a request (RFC 9110, §14).
#ifndef KINORA_SERVER_GATEWAY_BYTE_RANGE_H_
#define KINORA_SERVER_GATEWAY_BYTE_RANGE_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace kinora {

struct ByteRange {
  enum class Kind {
    kWhole,          // no range, several ranges, or a malformed one: the whole file, as the RFC allows
    kPart,           // first … last
    kUnsatisfiable,  // begins behind the end
  };
  Kind kind = Kind::kWhole;
  int64_t first = 0, last = 0;  // bytes, both included
};

// `range`: the value of Range; "": absent. size: of the file, at least 1.
ByteRange ParseByteRange(std::string_view range, int64_t size);

// Whether an If-None-Match or If-Range names the strong `etag` (with its quotes). "*" matches any.
bool NamesETag(std::string_view field, std::string_view etag);

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_BYTE_RANGE_H_
