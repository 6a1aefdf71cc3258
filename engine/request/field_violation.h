// Errors in the fields of a request.
#ifndef KINORA_ENGINE_REQUEST_FIELD_VIOLATION_H_
#define KINORA_ENGINE_REQUEST_FIELD_VIOLATION_H_

#include <string>
#include <string_view>
#include <vector>

namespace kinora {

struct FieldViolation {
  std::string field;        // path as a client writes it: "video_guidance.stg_blocks[0]"
  std::string description;  // the error and the nearest valid value
  bool operator==(const FieldViolation&) const = default;
};

using FieldViolations = std::vector<FieldViolation>;

// "field: description", joined by "; ".
std::string JoinViolations(const FieldViolations& violations);

// Returns why a field cannot hold `text`: invalid UTF-8 or a zero byte; "" if it can.
std::string TextProblem(std::string_view text);

}  // namespace kinora

#endif  // KINORA_ENGINE_REQUEST_FIELD_VIOLATION_H_
