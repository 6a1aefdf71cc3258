#include "server/common/status_details.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "google/rpc/error_details.pb.h"
#include "server/common/file_error.h"
#include "server/common/timestamps.h"

namespace kinora {
namespace {

std::string TypeUrl(const google::protobuf::Message& detail) {
  return absl::StrCat("type.googleapis.com/", detail.GetDescriptor()->full_name());
}

void SetDetail(absl::Status& status, const google::protobuf::Message& detail) {
  status.SetPayload(TypeUrl(detail), absl::Cord(detail.SerializeAsString()));
}

template <typename Detail>
Detail GetDetail(const absl::Status& status) {  // empty if there is none
  Detail detail;
  if (const auto payload = status.GetPayload(TypeUrl(detail)); payload.has_value()) {
    detail.ParseFromString(std::string(*payload));
  }
  return detail;
}

}  // namespace

absl::Status InvalidFields(const FieldViolations& violations) {
  google::rpc::BadRequest detail;
  for (const FieldViolation& violation : violations) {
    auto* added = detail.add_field_violations();
    added->set_field(violation.field);
    added->set_description(violation.description);
  }
  absl::Status status = absl::InvalidArgumentError(JoinViolations(violations));
  SetDetail(status, detail);
  return status;
}

absl::Status InvalidField(std::string field, std::string description) {
  return InvalidFields({{std::move(field), std::move(description)}});
}

absl::Status NotAvailableYet(std::string_view field) {
  return WithErrorInfo(absl::UnimplementedError(absl::StrCat(std::string(field), ": not available yet")),
                       "NOT_AVAILABLE_YET", {{"field", std::string(field)}});
}

absl::Status WithErrorInfo(absl::Status status, std::string_view reason,
                           const std::map<std::string, std::string>& metadata) {
  google::rpc::ErrorInfo detail;
  detail.set_reason(std::string(reason));
  detail.set_domain("kinora");
  detail.mutable_metadata()->insert(metadata.begin(), metadata.end());
  SetDetail(status, detail);
  return status;
}

absl::Status WithRetryInfo(absl::Status status, absl::Duration delay) {
  google::rpc::RetryInfo detail;
  *detail.mutable_retry_delay() = ToProto(delay);
  SetDetail(status, detail);
  return status;
}

std::string ErrorReason(const absl::Status& status) { return GetDetail<google::rpc::ErrorInfo>(status).reason(); }

FieldViolations Violations(const absl::Status& status) {
  FieldViolations violations;
  const auto detail = GetDetail<google::rpc::BadRequest>(status);
  for (const auto& violation : detail.field_violations()) {
    violations.push_back({violation.field(), violation.description()});
  }
  return violations;
}

absl::Status WithoutDirectories(const absl::Status& status) {
  const std::string message(status.message());
  std::string shown;
  for (size_t at = 0; at < message.size();) {
    const bool begins = message[at] == '/' && (at == 0 || std::strchr(" \"'(=", message[at - 1]) != nullptr);
    if (begins) {
      const size_t end = std::min(message.find_first_of(" \"':;,)", at), message.size());
      const size_t last = message.rfind('/', end - std::min<size_t>(2, end - at));
      const size_t name = last > at && last + 1 < end ? last + 1 : at;
      shown.append(message, name, end - name);
      at = end;
    } else {
      shown += message[at++];
    }
  }
  if (shown == message) return status;
  absl::Status cut(status.code(), shown);
  status.ForEachPayload([&cut](absl::string_view url, const absl::Cord& payload) { cut.SetPayload(url, payload); });
  return cut;
}

std::string ErrorLines(std::string_view program, const absl::Status& status) {
  std::string lines;
  const auto add = [&](std::string_view line) {
    absl::StrAppend(&lines, std::string(program), ": ", std::string(line), "\n");
  };
  for (const FieldViolation& violation : Violations(status)) add(JoinViolations({violation}));
  if (lines.empty()) add(std::string(status.message()));
  return lines;
}

google::rpc::Status ToRpcStatus(const absl::Status& status) {
  google::rpc::Status out;
  out.set_code(status.raw_code());
  out.set_message(std::string(status.message()));
  if (const auto path = status.GetPayload(kFilePayload)) {
    const std::string whole(*path);
    out.set_message(absl::StrReplaceAll(out.message(), {{whole, whole.substr(whole.rfind('/') + 1)}}));
    const bool keeps = absl::IsResourceExhausted(status) || absl::IsDataLoss(status);
    if (!keeps) out.set_code(static_cast<int>(absl::StatusCode::kInternal));
  }
  std::map<std::string, std::string> sorted;  // payloads are unordered; the order on the wire should not vary
  status.ForEachPayload([&](absl::string_view type_url, const absl::Cord& payload) {
    if (type_url != kFilePayload) sorted.emplace(std::string(type_url), std::string(payload));
  });
  for (const auto& [type_url, payload] : sorted) {
    auto* detail = out.add_details();
    detail->set_type_url(type_url);
    detail->set_value(payload);
  }
  return out;
}

absl::Status FromRpcStatus(const google::rpc::Status& status) {
  constexpr int kLastCode = static_cast<int>(absl::StatusCode::kUnauthenticated);
  const bool known = status.code() >= 0 && status.code() <= kLastCode;
  absl::Status out(known ? static_cast<absl::StatusCode>(status.code()) : absl::StatusCode::kUnknown, status.message());
  for (const auto& detail : status.details()) out.SetPayload(detail.type_url(), absl::Cord(detail.value()));
  return out;
}

}  // namespace kinora
