// What a part of the check found: tables for people, and the same as JSON.
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

// One part's. Written to its file after every row, so that what was found survives whatever comes after it.
//   {"part", "state": "passed" | "failed" | "not available", "seconds", "why": [...], "notes": [...],
//    "tables": {NAME: [{COLUMN: value, …}, …]}}
class Report {
 public:
  // file: "" keeps nothing.
  Report(std::string part, std::string file, double budget_seconds);

  using Row = std::vector<std::pair<const char*, Json>>;
  // Rows of one table have the same columns.
  void Add(const std::string& table, const Row& row);
  // A line below the tables.
  void Note(const std::string& line);
  // The part has failed; what remains of it may go on.
  void Fail(const std::string& why);
  void Fail(const std::string& what, const absl::Status& status);
  // The part cannot be run here, and why.
  void NotAvailable(const std::string& why);
  // Whether nothing new should be begun; notes what was left out.
  bool TimeIsUp(const std::string& left_out);
  // For leaving out what is expected to take longer.
  double SecondsLeft() const;
  void End();  // the last word

  const Json& json() const { return json_; }
  const Json& table(const std::string& name) { return json_["tables"][name]; }

 private:
  void Save();

  const std::string file_;
  const double budget_seconds_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  Json json_;
};

// A finished part's JSON for people.
void PrintReport(const Json& part, std::FILE* out);

}  // namespace kinora

#endif  // KINORA_TESTS_GPU_CHECK_REPORT_H_
