#include "server/common/config.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "server/common/regular_file.h"
#include "server/common/status_details.h"

namespace kinora {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr int kWorkerHttpPort = 8481;

// A flag: the path of fields from the configuration down to a scalar.
using FieldPath = std::vector<const FieldDescriptor*>;

void CollectFlags(const google::protobuf::Descriptor* type, const FieldPath& above,
                  std::map<std::string, FieldPath>& out) {
  for (int i = 0; i < type->field_count(); ++i) {
    FieldPath path = above;
    path.push_back(type->field(i));
    if (path.back()->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (!path.back()->is_repeated()) CollectFlags(path.back()->message_type(), path, out);
      continue;
    }
    const std::string name =
        absl::StrJoin(path, "-", [](std::string* s, const FieldDescriptor* f) { absl::StrAppend(s, f->name()); });
    out[absl::StrReplaceAll(name, {{"_", "-"}})] = path;
  }
}

std::map<std::string, FieldPath> Flags(const Message& config) {
  std::map<std::string, FieldPath> flags;
  CollectFlags(config.GetDescriptor(), {}, flags);
  return flags;
}

Message* Parent(Message& config, const FieldPath& path) {
  Message* message = &config;
  for (size_t i = 0; i + 1 < path.size(); ++i) message = message->GetReflection()->MutableMessage(message, path[i]);
  return message;
}

absl::Status SetField(Message& message, const FieldDescriptor* field, const std::string& flag,
                      const std::string& value) {
  const auto* reflection = message.GetReflection();
  const auto refuse = [&](const char* wanted) {
    return InvalidField(absl::StrCat("--", flag), absl::StrCat("\"", value, "\" is not ", wanted));
  };
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      field->is_repeated() ? reflection->AddString(&message, field, value)
                           : reflection->SetString(&message, field, value);
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_BOOL: {
      bool parsed;
      if (!absl::SimpleAtob(value, &parsed)) return refuse("true or false");
      reflection->SetBool(&message, field, parsed);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_INT32: {
      int32_t parsed;
      if (!absl::SimpleAtoi(value, &parsed)) return refuse("a 32-bit integer");
      reflection->SetInt32(&message, field, parsed);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      int64_t parsed;
      if (!absl::SimpleAtoi(value, &parsed)) return refuse("an integer");
      reflection->SetInt64(&message, field, parsed);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      double parsed;
      if (!absl::SimpleAtod(value, &parsed)) return refuse("a number");
      reflection->SetDouble(&message, field, parsed);
      return absl::OkStatus();
    }
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

class ErrorCollector : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text_.empty()) text_ = absl::StrCat(line + 1, ":", column + 1, ": ", message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

absl::Status MergeFile(const std::string& path, Message& config) {
  const absl::StatusOr<RegularFile> file = ReadRegularFile(path);
  if (!file.ok()) return InvalidField("--config", std::string(file.status().message()));
  ErrorCollector errors;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  if (!parser.MergeFromString(file->bytes, &config))
    return InvalidField("--config", absl::StrCat(path, ":", errors.text()));
  return absl::OkStatus();
}

struct Argument {
  std::string name, value;
  bool has_value = false;
};

Argument Split(const std::string& argument) {
  const size_t equals = argument.find('=');
  if (equals == std::string::npos) return {argument.substr(2), "", false};
  return {argument.substr(2, equals - 2), argument.substr(equals + 1), true};
}

absl::StatusOr<std::vector<Argument>> SplitAll(const std::vector<std::string>& arguments,
                                               const std::map<std::string, FieldPath>& flags) {
  std::vector<Argument> out;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!absl::StartsWith(arguments[i], "--")) {
      return InvalidField(arguments[i], "not a flag; flags are --name VALUE or --name=VALUE");
    }
    Argument argument = Split(arguments[i]);
    const auto flag = flags.find(argument.name);
    const bool command = argument.name == "check-config" || argument.name == "help";
    if (flag == flags.end() && !command && argument.name != "config") {
      return InvalidField(absl::StrCat("--", argument.name), "no such flag; --help lists them");
    }
    const bool is_bool =
        command || (flag != flags.end() && flag->second.back()->cpp_type() == FieldDescriptor::CPPTYPE_BOOL);
    if (is_bool && !argument.has_value) argument.value = "true";
    if (!is_bool && !argument.has_value) {
      if (i + 1 == arguments.size()) return InvalidField(absl::StrCat("--", argument.name), "needs a value");
      argument.value = arguments[++i];
    }
    out.push_back(std::move(argument));
  }
  return out;
}

}  // namespace

v1::FrontendConfig DefaultFrontendConfig() {
  v1::FrontendConfig config;
  config.set_address("127.0.0.1:8470");
  config.set_http_address("127.0.0.1:8480");
  config.set_state_directory("kinora-state");
  config.set_job_store("sqlite");
  config.set_queue_capacity(1000);
  config.set_max_watchers(1000);
  config.set_default_ttl_seconds(7 * 86400);
  config.set_max_ttl_seconds(30 * 86400);
  config.set_sweep_interval_seconds(60);
  config.set_disconnect_grace_seconds(30);
  config.set_heartbeat_interval_seconds(10);
  config.set_lease_seconds(30);
  config.set_drain_grace_seconds(20);
  config.set_max_lost_groups(2);
  config.set_min_free_bytes(int64_t{1} << 30);
  config.set_max_connections(1000);
  config.set_max_downloads(256);
  config.set_max_downloads_per_client(32);
  config.set_download_idle_seconds(60);
  config.set_max_call_memory_bytes(int64_t{512} << 20);
  config.set_log_format("text");
  config.set_worker_step_floor_seconds(60);
  config.set_worker_heartbeat_timeout_seconds(15);
  config.set_group_join_timeout_seconds(300);
  *config.mutable_worker() = DefaultWorkerConfig();
  return config;
}

v1::WorkerConfig DefaultWorkerConfig() {
  v1::WorkerConfig config;
  config.set_precision("bf16");
  config.set_http_address(absl::StrCat("127.0.0.1:", kWorkerHttpPort));
  config.set_group("0");
  config.set_log_format("text");
  config.set_world_size(1);
  config.set_memory_share(1);
  return config;
}

std::vector<v1::GroupConfig> GroupsOf(const v1::FrontendConfig& config) {
  std::vector<v1::GroupConfig> groups;
  for (const v1::GroupConfig& group : config.groups()) {
    if (!group.outside()) groups.push_back(group);
  }
  if (groups.empty() && !config.worker().model().empty()) {
    v1::GroupConfig& group = groups.emplace_back();
    group.set_id(config.worker().group());
    *group.mutable_worker() = config.worker();
    group.set_processes(1);
    return groups;
  }
  int port = kWorkerHttpPort;
  for (v1::GroupConfig& group : groups) {
    group.set_processes(std::max(1, group.processes()));
    v1::WorkerConfig worker = DefaultWorkerConfig();
    worker.set_http_address(absl::StrCat("127.0.0.1:", port));
    worker.set_memory_share(1.0 / static_cast<double>(groups.size()));
    worker.MergeFrom(group.worker());
    worker.set_group(group.id());
    *group.mutable_worker() = std::move(worker);
    port += group.processes();
  }
  return groups;
}

std::map<std::string, int> OutsideGroupsOf(const v1::FrontendConfig& config) {
  std::map<std::string, int> groups;
  for (const v1::GroupConfig& group : config.groups()) {
    if (group.outside()) groups[group.id()] = std::max(1, group.processes());
  }
  return groups;
}

std::string HttpAddressOf(const v1::WorkerConfig& config) {
  const std::string& address = config.http_address();
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port) || port == 0) return address;
  return absl::StrCat(address.substr(0, colon + 1), port + config.rank());
}

absl::StatusOr<ConfigCommand> ParseConfig(const std::vector<std::string>& arguments, Message& config) {
  const std::map<std::string, FieldPath> flags = Flags(config);
  KINORA_ASSIGN_OR_RETURN(const std::vector<Argument> split, SplitAll(arguments, flags));
  ConfigCommand command;
  for (const Argument& argument : split) {  // files first, wherever they stand
    if (argument.name == "config") KINORA_RETURN_IF_ERROR(MergeFile(argument.value, config));
    if (argument.name == "check-config") command.check = argument.value == "true";
    if (argument.name == "help") command.help = argument.value == "true";
  }
  std::map<const FieldDescriptor*, bool> replaced;
  for (const Argument& argument : split) {
    const auto flag = flags.find(argument.name);
    if (flag == flags.end()) continue;
    const FieldDescriptor* field = flag->second.back();
    Message* parent = Parent(config, flag->second);
    if (field->is_repeated() && !std::exchange(replaced[field], true))
      parent->GetReflection()->ClearField(parent, field);
    KINORA_RETURN_IF_ERROR(SetField(*parent, field, argument.name, argument.value));
  }
  return command;
}

std::vector<std::string> ToFlags(const Message& config) {
  std::vector<std::string> out;
  for (const auto& [name, path] : Flags(config)) {
    const Message* parent = &config;
    for (size_t i = 0; i + 1 < path.size(); ++i) parent = &parent->GetReflection()->GetMessage(*parent, path[i]);
    const FieldDescriptor* field = path.back();
    const int count = field->is_repeated() ? parent->GetReflection()->FieldSize(*parent, field) : 1;
    for (int i = 0; i < count; ++i) {
      out.push_back(absl::StrCat("--", name, "=", Value(*parent, field, field->is_repeated() ? i : -1)));
    }
  }
  return out;
}

std::string FlagHelp(const Message& defaults) {
  std::string out =
      "  --config FILE           protobuf text file; flags win over it\n"
      "  --check-config          check the configuration and end\n";
  for (const auto& [name, path] : Flags(defaults)) {
    const Message* parent = &defaults;
    for (size_t i = 0; i + 1 < path.size(); ++i) parent = &parent->GetReflection()->GetMessage(*parent, path[i]);
    const FieldDescriptor* field = path.back();
    absl::StrAppend(&out, "  --", name, " ", field->cpp_type_name(), field->is_repeated() ? " (repeatable)" : "");
    const std::string value = field->is_repeated() ? "" : Value(*parent, field, -1);
    absl::StrAppend(&out, value.empty() ? "" : absl::StrCat(" [", value, "]"), "\n");
  }
  return out;
}

}  // namespace kinora
