#include "server/frontend/message_check.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/unknown_field_set.h>

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"

namespace kinora {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr size_t kMaxViolations = 20;

struct Walk {
  std::vector<FieldViolation> out;

  void Add(const std::string& field, std::string description) {
    if (out.size() < kMaxViolations) out.push_back({field, std::move(description)});
  }

  void Text(const std::string& field, const std::string& text) {
    if (!IsValidUtf8(text)) return Add(field, "not valid UTF-8");
    if (text.find('\0') != std::string::npos) Add(field, "holds a zero byte");
  }

  // One value: `index` −1 for a field that is not repeated.
  void Value(const Message& message, const FieldDescriptor* field, int index, const std::string& path) {
    const Reflection& reflection = *message.GetReflection();
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_DOUBLE: {
        const double value = index < 0 ? reflection.GetDouble(message, field)
                                       : reflection.GetRepeatedDouble(message, field, index);
        if (!std::isfinite(value)) Add(path, "must be a finite number");
        return;
      }
      case FieldDescriptor::CPPTYPE_ENUM: {
        const int number = index < 0 ? reflection.GetEnumValue(message, field)
                                     : reflection.GetRepeatedEnumValue(message, field, index);
        if (field->enum_type()->FindValueByNumber(number) == nullptr) {
          Add(path, absl::StrCat(number, " is no number of ", field->enum_type()->name()));
        }
        return;
      }
      case FieldDescriptor::CPPTYPE_STRING:
        if (field->type() == FieldDescriptor::TYPE_STRING) {
          Text(path, index < 0 ? reflection.GetString(message, field)
                               : reflection.GetRepeatedString(message, field, index));
        }
        return;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return Fields(index < 0 ? reflection.GetMessage(message, field)
                                : reflection.GetRepeatedMessage(message, field, index),
                      path + ".");
      default:
        return;
    }
  }

  void Fields(const Message& message, const std::string& prefix) {
    if (out.size() >= kMaxViolations) return;
    const Reflection& reflection = *message.GetReflection();
    const auto& unknown = reflection.GetUnknownFields(message);
    for (int i = 0; i < unknown.field_count(); ++i) {
      Add(absl::StrCat(prefix, "#", unknown.field(i).number()),
          absl::StrCat("no field of ", message.GetDescriptor()->name(), " that this server knows"));
    }
    std::vector<const FieldDescriptor*> present;
    reflection.ListFields(message, &present);
    for (const FieldDescriptor* field : present) {
      if (!field->is_repeated()) {
        Value(message, field, -1, prefix + field->name());
        continue;
      }
      const int count = reflection.FieldSize(message, field);
      for (int i = 0; i < count && out.size() < kMaxViolations; ++i) {
        Value(message, field, i, absl::StrCat(prefix, field->name(), "[", i, "]"));
      }
    }
  }
};

}  // namespace

std::vector<FieldViolation> CheckMessage(const Message& message) {
  Walk walk;
  walk.Fields(message, "");
  return std::move(walk.out);
}

bool IsValidUtf8(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const auto byte = [&](size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u; };
    const unsigned lead = byte(i);
    const int length = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
    if (length == 0) return false;
    for (int k = 1; k < length; ++k) {
      if ((byte(i + k) & 0xC0) != 0x80) return false;
    }
    const unsigned second = byte(i + 1);
    if (lead == 0xE0 && second < 0xA0) return false;   // overlong
    if (lead == 0xED && second >= 0xA0) return false;  // surrogates
    if (lead == 0xF0 && second < 0x90) return false;   // overlong
    if (lead == 0xF4 && second >= 0x90) return false;  // above U+10FFFF
    i += length;
  }
  return true;
}

}  // namespace kinora
