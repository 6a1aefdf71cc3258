// Fields that released servers of the same API accept and this one rejects, each with the reason. A value that changes
// nothing there (false, the default) is accepted and has no effect.
#ifndef KINORA_SERVER_GATEWAY_FOREIGN_FIELDS_H_
#define KINORA_SERVER_GATEWAY_FOREIGN_FIELDS_H_

#include <string_view>

#include "absl/types/span.h"

namespace kinora {

struct ForeignField {
  std::string_view name;
  std::string_view servers;  // "SGLang", "vLLM-Omni", "SGLang, vLLM-Omni", "OpenAI"
  std::string_view without;  // the values, as JSON, that are accepted, separated by "|"; null always is
  std::string_view reason;   // a sentence that also says what to send instead, if there is anything
};

absl::Span<const ForeignField> ForeignFields();
const ForeignField* FindForeignField(std::string_view name);  // null: none

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_FOREIGN_FIELDS_H_
