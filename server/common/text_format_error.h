// The first error in a file of protobuf text format, with its position.
#ifndef KINORA_SERVER_COMMON_TEXT_FORMAT_ERROR_H_
#define KINORA_SERVER_COMMON_TEXT_FORMAT_ERROR_H_

#include <google/protobuf/io/tokenizer.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace kinora {

// Pass to TextFormat::Parser::RecordErrorsTo. Keeps only the first error, since others usually follow from it.
class TextFormatError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text_.empty()) text_ = absl::StrCat(line + 1, ":", column + 1, ": ", message);
  }
  const std::string& text() const { return text_; }  // "line:column: message", or empty

 private:
  std::string text_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_TEXT_FORMAT_ERROR_H_
