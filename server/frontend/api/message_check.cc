#include "server/frontend/api/message_check.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/unknown_field_set.h>
#include <google/protobuf/wire_format_lite.h>

#include <cmath>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/utf8.h"
#include "engine/request/request_rules.h"

namespace kinora {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

struct Walk {
  FieldViolations out;

  void Add(const std::string& field, std::string description) {
    if (out.size() < kMaxViolations) out.push_back({field, std::move(description)});
  }

  void Text(const std::string& field, const std::string& text) {
    if (std::string problem = TextProblem(text); !problem.empty()) Add(field, std::move(problem));
  }

  // Checks one value; `index` is −1 for a field that is not repeated.
  void Value(const Message& message, const FieldDescriptor* field, int index, const std::string& path) {
    const Reflection& reflection = *message.GetReflection();
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_DOUBLE: {
        const double value =
            index < 0 ? reflection.GetDouble(message, field) : reflection.GetRepeatedDouble(message, field, index);
        if (!std::isfinite(value)) Add(path, "must be a finite number");
        return;
      }
      case FieldDescriptor::CPPTYPE_ENUM: {
        const int number = index < 0 ? reflection.GetEnumValue(message, field)
                                     : reflection.GetRepeatedEnumValue(message, field, index);
        if (field->enum_type()->FindValueByNumber(number) == nullptr) {
          Add(path, absl::StrCat(number, " is not a value of ", field->enum_type()->name()));
        }
        return;
      }
      case FieldDescriptor::CPPTYPE_STRING:
        if (field->type() == FieldDescriptor::TYPE_STRING) {
          Text(path,
               index < 0 ? reflection.GetString(message, field) : reflection.GetRepeatedString(message, field, index));
        }
        return;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return Fields(
            index < 0 ? reflection.GetMessage(message, field) : reflection.GetRepeatedMessage(message, field, index),
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
          absl::StrCat("not a field of ", message.GetDescriptor()->name(), " that this server knows"));
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

// Finds text that is not UTF-8 in a message's bytes. Returns false if they are not a message.
bool CheckWire(CodedInputStream& in, const google::protobuf::Descriptor* type, const std::string& prefix, int depth,
               FieldViolations& out) {
  constexpr int kMaxDepth = 50;
  if (depth > kMaxDepth) return false;
  std::map<int, int> seen;  // elements of repeated fields, by number
  while (const uint32_t tag = in.ReadTag()) {
    const FieldDescriptor* field = type->FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    const bool delimited = WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
    if (!delimited || field == nullptr ||
        (field->type() != FieldDescriptor::TYPE_STRING && field->type() != FieldDescriptor::TYPE_MESSAGE)) {
      if (!WireFormatLite::SkipField(&in, tag)) return false;
      continue;
    }
    std::string path = prefix + field->name();
    if (field->is_repeated()) absl::StrAppend(&path, "[", seen[field->number()]++, "]");
    uint32_t length;
    if (!in.ReadVarint32(&length)) return false;
    if (field->type() == FieldDescriptor::TYPE_STRING) {
      std::string text;
      if (!in.ReadString(&text, static_cast<int>(length))) return false;
      if (FindInvalidUtf8(text) >= 0 && out.size() < kMaxViolations) out.push_back({path, TextProblem(text)});
      continue;
    }
    const auto limit = in.PushLimit(static_cast<int>(length));
    if (!CheckWire(in, field->message_type(), path + ".", depth + 1, out) || in.BytesUntilLimit() > 0) return false;
    in.PopLimit(limit);
  }
  return in.ConsumedEntireMessage();
}

}  // namespace

absl::Status ParseMessage(std::string_view bytes, Message& message) {
  FieldViolations violations;
  CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int>(bytes.size()));
  const bool whole = CheckWire(in, message.GetDescriptor(), "", 0, violations);
  if (!violations.empty()) return InvalidFields(violations);
  if (whole && message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the request's bytes are not a message of type ", message.GetDescriptor()->name()));
}

FieldViolations CheckMessage(const Message& message) {
  Walk walk;
  walk.Fields(message, "");
  return std::move(walk.out);
}

}  // namespace kinora
