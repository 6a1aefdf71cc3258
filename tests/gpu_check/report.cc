#include "tests/gpu_check/report.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "engine/base/strings.h"

namespace kinora {
namespace {

std::string CellText(const Json& cell) {
  if (cell.is_string()) return cell.get<std::string>();
  if (cell.is_null()) return "-";
  if (!cell.is_number_float()) return cell.dump();
  char text[32];
  const double value = cell.get<double>(), size = std::abs(value);
  const char* format = size != 0 && (size < 1e-2 || size >= 1e6) ? "%.2e" : size >= 100 ? "%.0f" : "%.3f";
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

void PrintTable(const std::string& name, const Json& rows, std::FILE* out) {
  if (rows.empty()) return;
  std::vector<std::vector<std::string>> lines(1);
  for (const auto& [column, cell] : rows.front().items()) lines[0].push_back(column);
  for (const Json& row : rows) {
    std::vector<std::string>& line = lines.emplace_back();
    for (const std::string& column : lines[0]) line.push_back(CellText(row.value(column, Json())));
  }
  std::fprintf(out, "\n%s\n", name.c_str());
  for (size_t i = 0; i < lines.size(); ++i) {
    for (size_t c = 0; c < lines[i].size(); ++c) {
      size_t width = 0;
      for (const auto& line : lines) width = std::max(width, line[c].size());
      const bool left = rows.front()[lines[0][c]].is_string();
      std::fprintf(out, left ? "  %-*s" : "  %*s", static_cast<int>(width), lines[i][c].c_str());
    }
    std::fprintf(out, "\n");
  }
}

}  // namespace

Report::Report(std::string part, std::string file, double budget_seconds)
    : file_(std::move(file)), budget_seconds_(budget_seconds) {
  json_ = {{"part", std::move(part)}, {"state", "passed"},      {"seconds", 0.0},
           {"why", Json::array()},    {"notes", Json::array()}, {"tables", Json::object()}};
}

void Report::Add(const std::string& table, const Row& row) {
  Json& cells = json_["tables"][table].emplace_back(Json::object());
  for (const auto& [column, value] : row) cells[column] = value;
  Save();
}

void Report::Note(const std::string& line) {
  json_["notes"].push_back(line);
  Save();
}

void Report::Fail(const std::string& why) {
  json_["state"] = "failed";
  json_["why"].push_back(why);
  Save();
}

void Report::Fail(const std::string& what, const absl::Status& status) {
  Fail(Cat(what, ": ", std::string(status.message())));
}

void Report::NotAvailable(const std::string& why) {
  if (json_["state"] == "passed") json_["state"] = "not available";
  json_["why"].push_back(why);
  Save();
}

bool Report::TimeIsUp(const std::string& left_out) {
  if (SecondsLeft() > 0.3 * budget_seconds_) return false;
  Note(Cat("left out for want of time: ", left_out));
  return true;
}

double Report::SecondsLeft() const {
  return budget_seconds_ - std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
}

void Report::End() {
  json_["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  json_["ended"] = true;
  Save();
}

void Report::Save() {
  if (!file_.empty()) std::ofstream(file_) << json_.dump() << "\n";
}

void PrintReport(const Json& part, std::FILE* out) {
  std::fprintf(out, "\n== %s: %s (%.1f s)\n", part.value("part", "").c_str(), part.value("state", "").c_str(),
               part.value("seconds", 0.0));
  for (const Json& why : part["why"]) std::fprintf(out, "  %s\n", why.get<std::string>().c_str());
  for (const auto& [name, rows] : part["tables"].items()) PrintTable(name, rows, out);
  for (const Json& note : part["notes"]) std::fprintf(out, "  %s\n", note.get<std::string>().c_str());
  std::fflush(out);
}

}  // namespace kinora
