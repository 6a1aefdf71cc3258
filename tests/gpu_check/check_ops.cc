// Parts "ops" and "sanitizer": correctness of the ops.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "tests/gpu_check/op_cases.h"
#include "tests/gpu_check/parts.h"

namespace kinora {
namespace {

// Limit of ‖a − b‖ / ‖b‖ of CUDA against the CPU.
double Tolerance(DType dtype) { return dtype == DType::kF32 ? 1e-4 : 2e-2; }

struct Errors {
  double largest = 0;   // |a − b|
  double relative = 0;  // ‖a − b‖ / ‖b‖
};

Errors Difference(const std::vector<float>& a, const std::vector<float>& b) {
  Errors errors;
  double squares = 0, of_b = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    const double d = std::isfinite(a[i]) || a[i] != b[i] ? std::abs(double{a[i]} - b[i]) : 0;
    errors.largest = std::isnan(d) ? HUGE_VAL : std::max(errors.largest, d);
    squares += d * d;
    of_b += double{b[i]} * b[i];
  }
  errors.relative = squares == 0 ? 0 : std::sqrt(squares / std::max(of_b, 1e-30));
  if (!std::isfinite(errors.relative)) errors = {HUGE_VAL, HUGE_VAL};
  return errors;
}

absl::StatusOr<std::vector<float>> RunCase(const OpCase& c, Backend& backend) {
  Workbench bench(backend);
  const PreparedOp prepared = c.prepare(bench);
  KINORA_RETURN_IF_ERROR(bench.status());
  prepared.run();
  return bench.Read(prepared.out);
}

// The result over all cases of one op in one dtype.
struct OpResult {
  std::string op;
  DType dtype = DType::kF32;
  int cases = 0;
  Errors worst;
  std::string worst_shape, failure;
};

std::vector<OpResult> RunAll(Backend& device, Backend& cpu) {
  std::vector<OpResult> results;
  for (const OpCase& c : AllCases()) {
    auto at = std::find_if(results.begin(), results.end(),
                           [&](const OpResult& r) { return r.op == c.op && r.dtype == c.dtype; });
    if (at == results.end()) at = results.insert(at, {.op = c.op, .dtype = c.dtype});
    ++at->cases;
    const auto expected = RunCase(c, cpu), found = RunCase(c, device);
    if (!expected.ok() || !found.ok()) {
      at->failure = Cat(c.shape, ": ", std::string((found.ok() ? expected : found).status().message()));
      continue;
    }
    const Errors errors = Difference(*found, *expected);
    at->worst.largest = std::max(at->worst.largest, errors.largest);
    if (errors.relative > at->worst.relative || at->worst_shape.empty()) {
      at->worst.relative = errors.relative;
      at->worst_shape = c.shape;
    }
  }
  return results;
}

// Reads "op, dtype" -> relative error from the results of an earlier run at `path`.
absl::StatusOr<std::map<std::string, double>> ErrorsIn(const std::string& path) {
  std::ifstream file(path);
  const Json json = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::InvalidArgumentError(Cat("--compare ", path, ": is not JSON"));
  std::map<std::string, double> errors;
  for (const Json& part : json.value("parts", Json::array())) {
    if (part.value("part", "") != "ops" || !part["tables"].contains("ops")) continue;
    for (const Json& row : part["tables"]["ops"]) {
      if (row["relative"].is_number()) errors[Cat(row.value("op", ""), row.value("dtype", ""))] = row["relative"];
    }
  }
  if (errors.empty()) return absl::InvalidArgumentError(Cat("--compare ", path, ": holds no part \"ops\""));
  return errors;
}

Json NumberOrNull(double value) { return std::isfinite(value) ? Json(value) : Json(); }

void AddResult(const OpResult& r, Report& report) {
  const bool within = r.failure.empty() && r.worst.relative <= Tolerance(r.dtype);
  report.Add("ops", {{"op", r.op},
                     {"dtype", std::string(DTypeName(r.dtype))},
                     {"cases", r.cases},
                     {"largest", NumberOrNull(r.worst.largest)},
                     {"relative", r.failure.empty() ? NumberOrNull(r.worst.relative) : Json()},
                     {"limit", Tolerance(r.dtype)},
                     {"at", r.failure.empty() ? r.worst_shape : r.failure},
                     {"within", within ? "yes" : "NO"}});
  if (!within) report.Fail(Cat(r.op, " in ", DTypeName(r.dtype), ": ", r.failure.empty() ? "differs" : r.failure));
}

std::string FirstThatExists(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (!path.empty() && std::filesystem::exists(path)) return path;
  }
  return "";
}

std::string FindSanitizer() {
  std::vector<std::string> candidates;
  const char* home = std::getenv("CUDA_HOME");
  if (home != nullptr) candidates.push_back(Cat(home, "/bin/compute-sanitizer"));
  std::string path = std::getenv("PATH") != nullptr ? std::getenv("PATH") : "";
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    candidates.push_back(path.substr(begin, end - begin) + "/compute-sanitizer");
    begin = end + 1;
  }
  candidates.emplace_back("/usr/local/cuda/bin/compute-sanitizer");
  return FirstThatExists(candidates);
}

}  // namespace

void CheckOps(const Settings& settings, Report& report) {
  const auto device = OpenBackend("cuda", {.threads = settings.threads});
  const auto cpu = OpenBackend("cpu", {.threads = settings.threads});
  if (!device.ok()) return report.NotAvailable(std::string(device.status().message()));
  if (!cpu.ok()) return report.Fail("cpu", cpu.status());
  const std::vector<OpResult> results = RunAll(**device, **cpu);
  for (const OpResult& result : results) AddResult(result, report);
  report.Note("relative: the worst norm of (device - CPU) / norm of CPU of the op's cases");
  if (settings.compare.empty()) return;
  const auto other = ErrorsIn(settings.compare);
  if (!other.ok()) return report.Fail(std::string(other.status().message()));
  for (const OpResult& r : results) {
    const auto at = other->find(Cat(r.op, DTypeName(r.dtype)));
    const bool both = at != other->end() && r.failure.empty();
    report.Add("device minus simulation",
               {{"op", r.op},
                {"dtype", std::string(DTypeName(r.dtype))},
                {"device", NumberOrNull(r.worst.relative)},
                {"simulation", both ? Json(at->second) : Json()},
                {"difference", both ? NumberOrNull(r.worst.relative - at->second) : Json()}});
  }
}

void CheckSanitizer(const Settings& settings, Report& report) {
  if (settings.simulated) {
    return report.NotAvailable("the simulated device is watched by AddressSanitizer and ThreadSanitizer instead");
  }
  const std::string sanitizer = FindSanitizer();
  if (sanitizer.empty()) return report.NotAvailable("compute-sanitizer is neither in PATH nor in CUDA_HOME/bin");
  for (const char* tool : {"memcheck", "racecheck"}) {
    if (report.TimeIsUp(tool)) return;
    const std::string log = Cat(settings.work, "/", tool, ".log");
    const std::string command = Cat("timeout 18 '", sanitizer, "' --tool ", tool, " --error-exitcode 9 '",
                                    settings.program, "' --part ops --small --in-process > '", log, "' 2>&1");
    const int status = std::system(command.c_str());
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    std::string last, line;
    for (std::ifstream file(log); std::getline(file, line);) {
      if (line.find("ERROR SUMMARY") != std::string::npos || line.find("RACECHECK SUMMARY") != std::string::npos)
        last = line;
    }
    const char* verdict = code == 0 ? "clean" : code == 124 ? "out of time" : code == 9 ? "errors" : "failed";
    report.Add("compute-sanitizer", {{"tool", tool}, {"result", verdict}, {"summary", last}});
    if (code == 124) report.Note(Cat(tool, " was ended after 18 s"));
    if (code != 0 && code != 124) report.Fail(Cat(tool, ": ", verdict, " (exit status ", code, ")"));
  }
}

}  // namespace kinora
