// The results of a part of the check, as tables and as JSON.
#ifndef KINORA_TESTS_GPU_CHECK_REPORT_H_
#define KINORA_TESTS_GPU_CHECK_REPORT_H_

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace kinora {

using Json = nlohmann::ordered_json;

// The report of one part. It is written to its file after every row, so that results survive a later failure.
//   {"part", "state": "passed" | "failed" | "not available", "seconds", "why": [...], "notes": [...],
//    "tables": {NAME: [{COLUMN: value, …}, …]}}
class Report {
 public:
  // `file` may be "" to write nothing.
  Report(std::string part, std::string file, double budget_seconds);

  using Row = std::vector<std::pair<const char*, Json>>;
  // All rows of a table must have the same columns.
  void Add(const std::string& table, const Row& row);
  // Adds a line below the tables.
  void Note(const std::string& line);
  // Marks the part as failed. The rest of the part may continue.
  void Fail(const std::string& why);
  void Fail(const std::string& what, const absl::Status& status);
  // Marks the part as not available on this machine.
  void NotAvailable(const std::string& why);
  // Returns true if the budget is used up and nothing more should start; adds a note that names what was skipped.
  bool TimeIsUp(const std::string& left_out);
  // Use it to skip work that is expected to take longer.
  double SecondsLeft() const;
  void End();  // marks the report as complete

  const Json& json() const { return json_; }
  const Json& table(const std::string& name) { return json_["tables"][name]; }

 private:
  void Save();

  const std::string file_;
  const double budget_seconds_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  Json json_;
};

// Prints a finished part's JSON as tables.
void PrintReport(const Json& part, std::FILE* out);

}  // namespace kinora

#endif  // KINORA_TESTS_GPU_CHECK_REPORT_H_
