// A multipart body, fed in pieces whose sizes the first byte decides. The parts do not depend on the pieces, the
// sequence of calls is right, and no part's headers break a limit.
#include <algorithm>
#include <cstdint>
#include <string>

#include "engine/base/check.h"
#include "server/gateway/multipart_reader.h"

namespace kinora {
namespace {

struct Parsed {
  absl::Status status;
  std::string parts;  // everything that was called, as text
};

Parsed Parse(std::string_view body, size_t piece) {
  Parsed parsed;
  bool inside = false;
  MultipartLimits limits;
  MultipartReader reader("XX",
                         {.on_part =
                              [&](const PartHeader& header) {
                                KINORA_CHECK(!inside);
                                KINORA_CHECK(!header.name.empty() && header.name.size() <= limits.name_bytes);
                                inside = true;
                                parsed.parts += "\n[" + header.name + "|" + header.filename.value_or("-") + "|";
                                return absl::OkStatus();
                              },
                          .on_data =
                              [&](std::string_view data) {
                                KINORA_CHECK(inside && !data.empty());
                                parsed.parts.append(data);
                                return absl::OkStatus();
                              },
                          .on_end =
                              [&] {
                                KINORA_CHECK(inside);
                                inside = false;
                                return absl::OkStatus();
                              }},
                         limits);
  for (size_t at = 0; at < body.size() && parsed.status.ok(); at += piece) {
    parsed.status = reader.Feed(body.substr(at, piece));
  }
  if (parsed.status.ok()) parsed.status = reader.Finish();
  KINORA_CHECK(!parsed.status.ok() || !inside);
  return parsed;
}

}  // namespace
}  // namespace kinora

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kinora;  // NOLINT: one function
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Parsed whole = Parse(body, std::max<size_t>(body.size(), 1));
  const Parsed pieces = Parse(body, size_t{1} + data[0] % 16);
  KINORA_CHECK(whole.status.ok() == pieces.status.ok());
  KINORA_CHECK(!whole.status.ok() || whole.parts == pieces.parts);
  (void)MultipartBoundary(body);
  return 0;
}
