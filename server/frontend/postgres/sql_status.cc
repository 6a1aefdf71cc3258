#include "server/frontend/postgres/sql_status.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "server/common/status_details.h"

namespace kinora {
namespace {

// Appendix A of PostgreSQL's manual.
constexpr std::string_view kUniqueViolation = "23505", kReadOnly = "25006", kSerialization = "40001",
                           kDeadlock = "40P01", kDiskFull = "53100", kLockNotAvailable = "55P03", kCancelled = "57014",
                           kDataCorrupted = "XX001", kIndexCorrupted = "XX002";

bool InClass(const SqlError& error, std::string_view digits) {
  return std::string_view(error.state).substr(0, digits.size()) == digits;
}

}  // namespace

bool LosesConnection(const SqlError& error) {
  // 57P..: the server or an administrator ends the session. 08...: the connection is broken.
  return error.lost || error.state == kReadOnly || InClass(error, "57P") || InClass(error, "08");
}

bool MayBeRepeated(const SqlError& error) {
  constexpr std::array kMeetings = {kUniqueViolation, kSerialization, kDeadlock, kLockNotAvailable, kCancelled};
  return std::find(kMeetings.begin(), kMeetings.end(), error.state) != kMeetings.end();
}

absl::Status ToStatus(const SqlError& error) {
  const std::string what = absl::StrCat("the database: ", error.message, error.state.empty() ? "" : " (", error.state,
                                        error.state.empty() ? "" : ")");
  if (error.state == kDiskFull) return WithErrorInfo(absl::ResourceExhaustedError(what), "DISK_FULL");
  if (error.state == kDataCorrupted || error.state == kIndexCorrupted) return absl::DataLossError(what);
  // 22: data exception; 23: integrity constraint violation. The outcome of a run, for example, is stored later after
  // Unavailable, but never after Internal.
  const bool ours = InClass(error, "22") || (InClass(error, "23") && !MayBeRepeated(error));
  return ours ? absl::InternalError(what) : absl::UnavailableError(what);
}

}  // namespace kinora
