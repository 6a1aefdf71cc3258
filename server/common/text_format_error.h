// Where a file of protobuf's text format is wrong, and how.
#ifndef KINORA_SERVER_COMMON_TEXT_FORMAT_ERROR_H_
#define KINORA_SERVER_COMMON_TEXT_FORMAT_ERROR_H_

#include <google/protobuf/io/tokenizer.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace kinora {

// Give it to TextFormat::Parser::RecordErrorsTo. Keeps the first error: what follows comes of it.
class TextFormatError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text_.empty()) text_ = absl::StrCat(line + 1, ":", column + 1, ": ", message);
  }
  const std::string& text() const { return text_; }  // "line:column: what is wrong", or empty

 private:
  std::string text_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_TEXT_FORMAT_ERROR_H_
