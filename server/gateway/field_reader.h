// Reads typed values from an object of fields, and collects everything that is wrong with them. Numbers and booleans
// may be written as text ("24", "true"), and lists and objects as JSON text, because parts of a multipart body have no
// types. null counts as absent.
#ifndef KINORA_SERVER_GATEWAY_FIELD_READER_H_
#define KINORA_SERVER_GATEWAY_FIELD_READER_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "engine/request/field_violation.h"
#include "server/gateway/field_json.h"

namespace kinora {

inline constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();

// Each call returns nullopt if the field is absent, or if it is wrong; then it adds a violation.
class FieldReader {
 public:
  // object: a JSON object. prefix: of the fields' names in errors, such as "conditions[1].". Both must outlive this.
  FieldReader(const nlohmann::ordered_json& object, std::string prefix, FieldViolations& violations)
      : object_(object), prefix_(std::move(prefix)), violations_(violations) {}

  bool Has(std::string_view name) const { return Find(name) != nullptr; }
  // Whether the field is this word, in any case.
  bool Is(std::string_view name, std::string_view word) const;
  std::optional<std::string> Text(std::string_view name);
  std::optional<int64_t> Integer(std::string_view name, int64_t least, int64_t most);
  std::optional<uint64_t> Unsigned(std::string_view name);
  std::optional<double> Number(std::string_view name);  // finite
  std::optional<bool> Boolean(std::string_view name);
  // A text of a few words; any case, and dashes for underscores. Returns its index in `words`.
  std::optional<size_t> Word(std::string_view name, absl::Span<const std::string_view> words);
  std::optional<std::vector<double>> Numbers(std::string_view name);
  std::optional<std::vector<int32_t>> Integers(std::string_view name);
  std::optional<nlohmann::ordered_json> Object(std::string_view name);
  // A list; one value or object alone is a list of one.
  std::optional<std::vector<nlohmann::ordered_json>> List(std::string_view name);

  void Reject(std::string_view name, std::string description);
  // Rejects every name but these, with the nearest of them; at most the first 20.
  void RejectOthers(absl::Span<const std::string_view> known);
  std::string Path(std::string_view name) const;

 private:
  const nlohmann::ordered_json* Find(std::string_view name) const;  // null: absent

  const nlohmann::ordered_json& object_;
  const std::string prefix_;
  FieldViolations& violations_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_FIELD_READER_H_
