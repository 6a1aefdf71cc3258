// JSON of clients. Only for .cc files and for headers that the gateway's mapping alone includes.
#ifndef KINORA_SERVER_GATEWAY_FIELD_JSON_H_
#define KINORA_SERVER_GATEWAY_FIELD_JSON_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace kinora {

// InvalidArgument with the rest of a sentence that begins "the body is": not valid JSON, nested too deep, with more
// values than allowed (request_fields.h has the limits), or with a name that occurs twice in an object.
absl::StatusOr<nlohmann::ordered_json> ParseFieldJson(std::string_view text);

// The text as an error may show it: cut after a character if it is long.
std::string Shortened(std::string_view text);

// Compact JSON; bytes that are not UTF-8 become U+FFFD.
std::string ToText(const nlohmann::ordered_json& json);

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_FIELD_JSON_H_
