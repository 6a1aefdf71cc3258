#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/text_format.h>

#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "server/common/config.h"
#include "server/common/regular_file.h"
#include "server/common/status_details.h"
#include "server/common/text_format_error.h"

namespace kinora {

// proto/kinora/v1/config.proto as a FileDescriptorSet with its comments; made by the build.
extern const unsigned char kConfigDescriptors[];
extern const size_t kConfigDescriptorsSize;

namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr FlagSpec kConfigCommands[] = {
    {"config", "FILE", "protobuf text file of the same fields; flags win over it. May be given again"},
    {"check-config", "", "check the configuration without starting anything, and end"},
};

constexpr FlagSpec kDescribe = {"describe", "",
                                "write what requests to this model may ask for to standard output, for a frontend's "
                                "model_description, and end"};

// The path of fields from the configuration down to a scalar.
using FieldPath = std::vector<const FieldDescriptor*>;

struct Flag {
  std::string name, value, help;
  FieldPath path;
  bool shown = true;
};

// The descriptors that a program links have no comments; these have.
const DescriptorPool& Commented() {
  static const DescriptorPool* const pool = [] {
    google::protobuf::FileDescriptorSet files;
    KINORA_CHECK(files.ParseFromArray(kConfigDescriptors, static_cast<int>(kConfigDescriptorsSize)));
    auto* out = new DescriptorPool;
    for (const auto& file : files.file()) KINORA_CHECK(out->BuildFile(file) != nullptr) << file.name();
    return out;
  }();
  return *pool;
}

std::string CommentOf(const FieldDescriptor& field) {
  google::protobuf::SourceLocation location;
  KINORA_CHECK(Commented().FindFieldByName(field.full_name())->GetSourceLocation(&location)) << field.full_name();
  std::string text = absl::StrReplaceAll(location.leading_comments, {{"\n", " "}, {"`", ""}});
  absl::RemoveExtraAsciiWhitespace(&text);
  return text;
}

bool IsWorker(const Descriptor* type) { return type == v1::WorkerConfig::descriptor(); }

// What a certificate is for stands above the field that holds it.
std::string HelpOf(const FieldPath& path) {
  std::string help = CommentOf(*path.back());
  const bool inner = path.size() > 1 && !IsWorker(path.back()->containing_type());
  if (inner) absl::StrAppend(&help, "; ", CommentOf(*path[path.size() - 2]));
  if (path.back()->is_repeated()) absl::StrAppend(&help, "; may be given again, and replaces the file's");
  return help;
}

std::string ValueName(const FieldDescriptor& field) {
  const std::string& name = field.options().GetExtension(v1::flag).value();
  if (!name.empty()) return name;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return "[=true|false]";
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::EndsWith(field.name(), "_bytes") ? "SIZE" : "N";
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return absl::EndsWith(field.name(), "_seconds") ? "SECONDS" : "X";
    case FieldDescriptor::CPPTYPE_INT32:
      return "N";
    default:
      return "TEXT";
  }
}

void CollectFlags(const Descriptor* type, const FieldPath& above, bool shown, std::vector<Flag>& out) {
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    FieldPath path = above;
    path.push_back(field);
    const v1::FlagOptions::SetBy by = field->options().GetExtension(v1::flag).set_by();
    const bool embedded = !above.empty() && IsWorker(type);
    const bool show = shown && by != v1::FlagOptions::SUPERVISOR && !(embedded && by == v1::FlagOptions::LAUNCHER);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (!field->is_repeated()) CollectFlags(field->message_type(), path, show, out);
      continue;
    }
    const std::string name =
        absl::StrJoin(path, "-", [](std::string* s, const FieldDescriptor* f) { absl::StrAppend(s, f->name()); });
    out.push_back({.name = absl::StrReplaceAll(name, {{"_", "-"}}),
                   .value = ValueName(*field),
                   .help = HelpOf(path),
                   .path = path,
                   .shown = show});
  }
}

struct FlagTable {
  std::vector<Flag> flags;
  std::vector<FlagSpec> all, shown;  // views of `flags`

  explicit FlagTable(const Descriptor* type) {
    CollectFlags(type, {}, /*shown=*/true, flags);
    all.assign(std::begin(kConfigCommands), std::end(kConfigCommands));
    if (IsWorker(type)) all.push_back(kDescribe);
    all.insert(all.end(), StandardFlags().begin(), StandardFlags().end());
    shown = all;
    for (const Flag& flag : flags) {
      const FlagSpec& spec = all.emplace_back(FlagSpec{flag.name, flag.value, flag.help});
      if (flag.shown) shown.push_back(spec);
    }
  }
  const Flag* Find(absl::string_view name) const {
    for (const Flag& flag : flags) {
      if (flag.name == name) return &flag;
    }
    return nullptr;
  }
};

const FlagTable& TableOf(const Descriptor* type) {
  static auto* const tables = new std::map<const Descriptor*, FlagTable>;
  return tables->try_emplace(type, type).first->second;
}

Message* Parent(Message& config, const FieldPath& path) {
  Message* message = &config;
  for (size_t i = 0; i + 1 < path.size(); ++i) message = message->GetReflection()->MutableMessage(message, path[i]);
  return message;
}

// "true", "1 GiB" of a field of bytes, "1d" of one of seconds.
template <typename T>
bool ParseValue(const FieldDescriptor& field, const std::string& text, T* value) {
  if constexpr (std::is_same_v<T, bool>) {
    return absl::SimpleAtob(text, value);
  } else if constexpr (std::is_same_v<T, double>) {
    if (absl::SimpleAtod(text, value)) return true;
    const auto duration = ParseDurationText(text);
    *value = absl::ToDoubleSeconds(duration.value_or(absl::ZeroDuration()));
    return duration.has_value() && absl::EndsWith(field.name(), "_seconds");
  } else {
    if (absl::SimpleAtoi(text, value)) return true;
    const auto bytes = ParseBytes(text);
    if (!std::is_same_v<T, int64_t> || !bytes || !absl::EndsWith(field.name(), "_bytes")) return false;
    *value = static_cast<T>(*bytes);
    return true;
  }
}

absl::Status SetField(Message& message, const FieldDescriptor* field, const std::string& flag,
                      const std::string& value) {
  const auto* reflection = message.GetReflection();
  const auto set = [&](auto parsed, auto setter, const char* wanted) {
    if (!ParseValue(*field, value, &parsed)) {
      return InvalidField(absl::StrCat("--", flag), absl::StrCat("\"", value, "\" is not ", wanted));
    }
    (reflection->*setter)(&message, field, parsed);
    return absl::OkStatus();
  };
  using google::protobuf::Reflection;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      field->is_repeated() ? reflection->AddString(&message, field, value)
                           : reflection->SetString(&message, field, value);
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_BOOL:
      return set(bool{}, &Reflection::SetBool, "true or false");
    case FieldDescriptor::CPPTYPE_INT32:
      return set(int32_t{}, &Reflection::SetInt32, "a 32-bit integer");
    case FieldDescriptor::CPPTYPE_INT64:
      return set(int64_t{}, &Reflection::SetInt64, "an integer or a size as 80GB");
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return set(double{}, &Reflection::SetDouble, "a number, or a duration as 90s or 1d where it is of seconds");
    default:
      KINORA_CHECK(false) << "config.proto uses a type that flags do not know: " << field->full_name();
      return absl::OkStatus();
  }
}

// Scalar as a flag value; `index` -1: not repeated.
std::string Value(const Message& message, const FieldDescriptor* field, int index) {
  std::string text;
  google::protobuf::TextFormat::PrintFieldValueToString(message, field, index, &text);
  if (field->cpp_type() != FieldDescriptor::CPPTYPE_STRING) return text;
  const auto* reflection = message.GetReflection();
  return index < 0 ? reflection->GetString(message, field) : reflection->GetRepeatedString(message, field, index);
}

absl::Status MergeFile(const std::string& path, Message& config) {
  const absl::StatusOr<RegularFile> file = ReadRegularFile(path);
  if (!file.ok()) return InvalidField("--config", std::string(file.status().message()));
  TextFormatError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.MergeFromString(file->bytes, &config))
    return InvalidField("--config", absl::StrCat(path, ":", error.text()));
  return absl::OkStatus();
}

}  // namespace

absl::Span<const FlagSpec> ConfigFlags(const Message& config) { return TableOf(config.GetDescriptor()).shown; }

absl::StatusOr<ConfigCommand> ParseConfig(const std::vector<std::string>& arguments, Message& config) {
  const FlagTable& table = TableOf(config.GetDescriptor());
  KINORA_ASSIGN_OR_RETURN(const CommandLine line, CommandLine::Parse(table.all, arguments));
  if (!line.operands().empty()) {
    return InvalidField(line.operands()[0], "not a flag; flags are --name VALUE or --name=VALUE");
  }
  const ConfigCommand command{.check = line.Has("check-config"),
                              .describe = line.Has("describe"),
                              .help = line.Has("help"),
                              .version = line.Has("version")};
  if (command.help || command.version) return command;
  for (const std::string& path : line.GetAll("config")) KINORA_RETURN_IF_ERROR(MergeFile(path, config));
  std::map<const Flag*, bool> replaced;
  for (const auto& [name, value] : line.given()) {
    const Flag* flag = table.Find(name);
    if (flag == nullptr) continue;
    const FieldDescriptor* field = flag->path.back();
    Message* parent = Parent(config, flag->path);
    if (field->is_repeated() && !std::exchange(replaced[flag], true))
      parent->GetReflection()->ClearField(parent, field);
    KINORA_RETURN_IF_ERROR(SetField(*parent, field, name, value));
  }
  return command;
}

std::vector<std::string> ToFlags(const Message& config) {
  std::vector<std::string> out;
  for (const Flag& flag : TableOf(config.GetDescriptor()).flags) {
    const Message* parent = &config;
    for (size_t i = 0; i + 1 < flag.path.size(); ++i) {
      parent = &parent->GetReflection()->GetMessage(*parent, flag.path[i]);
    }
    const FieldDescriptor* field = flag.path.back();
    const int count = field->is_repeated() ? parent->GetReflection()->FieldSize(*parent, field) : 1;
    for (int i = 0; i < count; ++i) {
      out.push_back(absl::StrCat("--", flag.name, "=", Value(*parent, field, field->is_repeated() ? i : -1)));
    }
  }
  return out;
}

}  // namespace kinora
