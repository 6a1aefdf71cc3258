// The fields of a request: a JSON body, or text parts, one a line ("NAME=VALUE", or "@NAME" for a file). An accepted
// request has every file in its place, is written as fields that are accepted again, and gives the same request then;
// an error is an answer of 400, 413 or 422 in UTF-8.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "engine/base/check.h"
#include "server/common/status_details.h"
#include "server/gateway/create_fields.h"
#include "server/gateway/error_body.h"
#include "server/request/model_conversion.h"
#include "tests/request/descriptions.h"

namespace kinora {
namespace {

absl::StatusOr<RequestFields> FieldsOf(const std::string& text) {
  if (text.empty() || text[0] == '{' || text[0] == '[') return RequestFields::FromJson(text);
  RequestFields fields;
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  for (const std::string& line : lines) {
    const size_t equals = std::min(line.find('='), line.size());
    const bool file = !line.empty() && line[0] == '@';
    const absl::Status status =
        file ? fields.AddFile(line.substr(1))
             : fields.AddText(line.substr(0, equals), line.substr(std::min(equals + 1, line.size())));
    if (!status.ok()) return status;
  }
  const absl::Status merged = fields.Merge();
  if (!merged.ok()) return merged;
  return fields;
}

void CheckError(const absl::Status& status) {
  const HttpError error = ToHttpError(status);
  KINORA_CHECK(error.status == 400 || error.status == 413 || error.status == 422) << status.ToString();
  KINORA_CHECK(!nlohmann::json::parse(error.body, nullptr, /*allow_exceptions=*/false).is_discarded()) << error.body;
}

}  // namespace
}  // namespace kinora

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kinora;  // NOLINT: one function
  static const v1::ModelInfo model = ToModelInfo(DescribeModel({}), "ltx");
  const std::string text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<RequestFields> fields = FieldsOf(text);
  if (!fields.ok()) return CheckError(fields.status()), 0;
  for (const bool ignore : {false, true}) {
    absl::StatusOr<CreateFields> created = ToCreateRequest(*fields, model, {.ignore_unknown = ignore});
    if (!created.ok()) {
      CheckError(created.status());
      continue;
    }
    v1::Input input;
    input.set_id(std::string(64, 'a'));
    for (const PendingInput& pending : created->inputs) {
      input.set_media_type(pending.use == InputUse::kImage  ? "image/png"
                           : pending.use == InputUse::kClip ? "video/mp4"
                                                            : "audio/wav");
      KINORA_CHECK(SetInput(pending, input, created->request).ok());
    }
    const std::string written = ToFields(created->request.generation(), created->request.output())
                                    .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    const absl::StatusOr<RequestFields> read = RequestFields::FromJson(written);
    KINORA_CHECK(read.ok()) << read.status().ToString() << " " << written;
    const absl::StatusOr<CreateFields> again = ToCreateRequest(*read, model, {});
    KINORA_CHECK(again.ok()) << again.status().ToString() << " " << written;
    KINORA_CHECK(again->inputs.empty());
  }
  return 0;
}
