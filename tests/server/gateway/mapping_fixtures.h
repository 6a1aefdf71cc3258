// Bodies and models for tests of the gateway's mapping.
#ifndef KINORA_TESTS_SERVER_GATEWAY_MAPPING_FIXTURES_H_
#define KINORA_TESTS_SERVER_GATEWAY_MAPPING_FIXTURES_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/base/status_macros.h"
#include "server/gateway/create_fields.h"
#include "server/gateway/multipart_reader.h"
#include "server/gateway/request_fields.h"
#include "server/request/model_conversion.h"
#include "tests/request/descriptions.h"

namespace kinora {

// "ltx": a dev model with the recipes one_stage and distilled, 24 frames per second, 8k + 1 frames.
inline v1::ModelInfo DevModel() { return ToModelInfo(DescribeModel({}), "ltx"); }

inline absl::StatusOr<CreateFields> Create(std::string_view json, const FieldRules& rules = {}) {
  KINORA_ASSIGN_OR_RETURN(const RequestFields fields, RequestFields::FromJson(json));
  return ToCreateRequest(fields, DevModel(), rules);
}

// A multipart body as the test reads it: text, and files by their names.
struct ReadBody {
  RequestFields fields;
  std::vector<PartHeader> headers;
  std::map<std::string, std::string> files;
};

// Feeds `body` in pieces of `piece` bytes.
inline absl::StatusOr<ReadBody> ReadMultipart(const std::string& body, const std::string& boundary, size_t piece,
                                              MultipartLimits limits = {}) {
  ReadBody read;
  std::string text;
  const PartHandlers handlers = {.on_part =
                                     [&](const PartHeader& header) {
                                       read.headers.push_back(header);
                                       text.clear();
                                       return header.filename ? read.fields.AddFile(header.name) : absl::OkStatus();
                                     },
                                 .on_data =
                                     [&](std::string_view data) {
                                       text.append(data);
                                       return absl::OkStatus();
                                     },
                                 .on_end =
                                     [&] {
                                       const PartHeader& header = read.headers.back();
                                       if (!header.filename) return read.fields.AddText(header.name, text);
                                       read.files[header.name] = text;
                                       return absl::OkStatus();
                                     }};
  MultipartReader reader(boundary, handlers, limits);
  for (size_t at = 0; at < body.size(); at += piece) {
    KINORA_RETURN_IF_ERROR(reader.Feed(std::string_view(body).substr(at, piece)));
  }
  KINORA_RETURN_IF_ERROR(reader.Finish());
  KINORA_RETURN_IF_ERROR(read.fields.Merge());
  return read;
}

// Lines as a multipart body has them: each "\n" becomes CRLF.
inline std::string Lines(std::string_view text) { return absl::StrReplaceAll(std::string(text), {{"\n", "\r\n"}}); }

}  // namespace kinora

#endif  // KINORA_TESTS_SERVER_GATEWAY_MAPPING_FIXTURES_H_
