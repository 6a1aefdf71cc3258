// Flags of one command: declared in a table, parsed once, listed by --help from the same table.
//   --name VALUE, --name=VALUE, --name (a flag without a value), -- (the rest are operands). A flag may be given again;
//   Get returns the last, GetAll all of them.
#ifndef KINORA_SERVER_TOOLS_COMMAND_LINE_H_
#define KINORA_SERVER_TOOLS_COMMAND_LINE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace kinora {

struct FlagSpec {
  absl::string_view name;   // without dashes
  absl::string_view value;  // how --help names the value, "N"; empty: the flag takes none
  absl::string_view help;
};

class CommandLine {
 public:
  // InvalidArgument names the flag: unknown, without its value, or with one it does not take.
  static absl::StatusOr<CommandLine> Parse(absl::Span<const FlagSpec> flags, absl::Span<const std::string> arguments);

  bool Has(absl::string_view name) const { return values_.contains(name); }
  std::optional<std::string> Get(absl::string_view name) const;
  std::vector<std::string> GetAll(absl::string_view name) const;
  // Absent flag: nullopt. A value that does not parse, or is not finite: InvalidArgument naming the flag.
  absl::StatusOr<std::optional<int64_t>> GetInt(absl::string_view name, int64_t minimum, int64_t maximum) const;
  // A size, "80GB", "24GiB", "1.5MB"; no unit: bytes. At least 1.
  absl::StatusOr<std::optional<int64_t>> GetBytes(absl::string_view name) const;
  absl::StatusOr<std::optional<uint64_t>> GetUint64(absl::string_view name) const;
  absl::StatusOr<std::optional<double>> GetDouble(absl::string_view name) const;
  absl::StatusOr<std::optional<absl::Duration>> GetDuration(
      absl::string_view name) const;  // "90s", "1h30m"; no unit: seconds

  const std::vector<std::string>& operands() const { return operands_; }

 private:
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
  std::vector<std::string> operands_;
};

// One line per flag, indented, wrapped at 100 columns.
std::string FormatFlags(absl::Span<const FlagSpec> flags);

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_COMMAND_LINE_H_
