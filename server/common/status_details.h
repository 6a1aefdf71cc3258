// Errors with google.rpc details. A detail travels as a payload of absl::Status (its type URL, its bytes) until
// grpc_status.h or ToRpcStatus puts it on the wire. docs/jobs.md has the table of codes and details.
#ifndef KINORA_SERVER_COMMON_STATUS_DETAILS_H_
#define KINORA_SERVER_COMMON_STATUS_DETAILS_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/request/field_violation.h"
#include "google/rpc/status.pb.h"

namespace kinora {

// INVALID_ARGUMENT with google.rpc.BadRequest; the message is "field: description", all of them joined by "; ".
absl::Status InvalidFields(const FieldViolations& violations);
absl::Status InvalidField(std::string field, std::string description);

// UNIMPLEMENTED, ErrorInfo NOT_AVAILABLE_YET {field}: valid, but this build cannot do it.
absl::Status NotAvailableYet(std::string_view field);

// Adds google.rpc.ErrorInfo (domain "kinora") or RetryInfo, replacing a detail of the same type. OK stays OK.
absl::Status WithErrorInfo(absl::Status status, std::string_view reason,
                           const std::map<std::string, std::string>& metadata = {});
absl::Status WithRetryInfo(absl::Status status, absl::Duration delay);

std::string ErrorReason(const absl::Status& status);     // from its ErrorInfo, or ""
FieldViolations Violations(const absl::Status& status);  // from its BadRequest, or empty

// The status with the directories of absolute paths cut from its message, for clients: "/models/a.safetensors: …"
// becomes "a.safetensors: …".
absl::Status WithoutDirectories(const absl::Status& status);

// The message as lines for a program's standard error, "PROGRAM: MESSAGE\n": one line for each field violation, or one
// for the whole message if there is none.
std::string ErrorLines(std::string_view program, const absl::Status& status);

// Converts a status for other processes. An error with kFilePayload names the file without its folders, and its code
// becomes INTERNAL unless it is RESOURCE_EXHAUSTED or DATA_LOSS: a caller would take NOT_FOUND and the like to be about
// what it named.
google::rpc::Status ToRpcStatus(const absl::Status& status);
absl::Status FromRpcStatus(const google::rpc::Status& status);  // a code that gRPC does not define becomes UNKNOWN

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_STATUS_DETAILS_H_
