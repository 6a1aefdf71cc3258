// data: URLs (RFC 2397): data:[TYPE/SUBTYPE][;NAME=VALUE...][;base64],DATA
#ifndef KINORA_SERVER_GATEWAY_DATA_URL_H_
#define KINORA_SERVER_GATEWAY_DATA_URL_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace kinora {

struct DataUrl {
  std::string media_type;  // in lower case, without parameters; "": the URL states none
  std::string bytes;       // never empty
};

// Whether a text is meant as a data: URL, well-formed or not.
bool IsDataUrl(std::string_view text);

// Base64 may have spaces and line breaks, may lack its padding and may be percent-encoded; other data is
// percent-encoded text. InvalidArgument with the rest of a sentence about the field.
absl::StatusOr<DataUrl> ParseDataUrl(std::string_view text);

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_DATA_URL_H_
