// Errors with google.rpc details. A detail travels as a payload of absl::Status (its type URL, its bytes) until
// grpc_status.h or ToRpcStatus puts it on the wire. The table of codes and details is in docs/operations.md.
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

// Adds google.rpc.ErrorInfo (domain "kinora") or RetryInfo; replaces one of the same type. OK stays OK.
absl::Status WithErrorInfo(absl::Status status, std::string_view reason,
                           const std::map<std::string, std::string>& metadata = {});
absl::Status WithRetryInfo(absl::Status status, absl::Duration delay);

std::string ErrorReason(const absl::Status& status);     // of its ErrorInfo; "": none
FieldViolations Violations(const absl::Status& status);  // of its BadRequest

// As others are told it: an error with a file of this machine (kFilePayload) names it without its folders, and is
// INTERNAL unless it is RESOURCE_EXHAUSTED or DATA_LOSS: NOT_FOUND and the like would speak of what the caller named.
google::rpc::Status ToRpcStatus(const absl::Status& status);
absl::Status FromRpcStatus(const google::rpc::Status& status);  // a code that is not gRPC's is UNKNOWN

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_STATUS_DETAILS_H_
