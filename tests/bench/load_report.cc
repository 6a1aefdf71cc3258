#include "tests/bench/load_report.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace kinora {
namespace {

namespace fs = std::filesystem;

int64_t SizeOf(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(size);
}

// Returns (maximum - minimum) / mean over the second half of the samples.
double Spread(const std::vector<Growth::Sample>& samples, int64_t Growth::Sample::*field) {
  double least = 0, most = 0, sum = 0;
  const size_t half = samples.size() / 2;
  for (size_t i = half; i < samples.size(); ++i) {
    const auto value = static_cast<double>(samples[i].*field);
    least = i == half ? value : std::min(least, value);
    most = i == half ? value : std::max(most, value);
    sum += value;
  }
  return sum > 0 ? (most - least) * static_cast<double>(samples.size() - half) / sum : 0;
}

void PrintQuantiles(const char* what, const std::vector<double>& seconds) {
  std::printf("%s: p50 %.1f ms, p99 %.1f ms, most %.1f ms\n", what, 1e3 * Quantile(seconds, 0.5),
              1e3 * Quantile(seconds, 0.99), 1e3 * Quantile(seconds, 1));
}

void PrintProcess(const Growth& growth) {
  const std::vector<Growth::Sample>& samples = growth.samples();
  const Growth::Sample &first = samples.front(), &last = samples.back();
  std::printf("resident %.1f MB at first, %.1f MB at last, spread of the second half %.1f%%\n",
              1e-6 * static_cast<double>(first.resident_bytes), 1e-6 * static_cast<double>(last.resident_bytes),
              100 * Spread(samples, &Growth::Sample::resident_bytes));
  std::printf("descriptors %lld at first, %lld at last, spread of the second half %.1f%%\n",
              static_cast<long long>(first.descriptors), static_cast<long long>(last.descriptors),
              100 * Spread(samples, &Growth::Sample::descriptors));
}

}  // namespace

void OrDie(const grpc::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%d: %s\n", status.error_code(), status.error_message().c_str());
  std::exit(1);
}

void AwaitModel(v1::VideoGeneration::Stub& stub, const std::string& model) {
  v1::CreateVideoRequest request;
  request.set_model(model);
  while (true) {
    grpc::ClientContext context;
    v1::Estimate estimate;
    if (stub.EstimateVideo(&context, request, &estimate).ok()) return;
    absl::SleepFor(absl::Milliseconds(20));
  }
}

double Quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  const auto at = values.begin() + static_cast<int64_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

void Growth::Look() {
  Sample sample;
  std::ifstream statm(absl::StrCat("/proc/", process_, "/statm"));
  int64_t pages = 0;
  statm >> pages >> pages;
  sample.resident_bytes = pages * sysconf(_SC_PAGESIZE);
  std::error_code error;
  sample.descriptors = std::distance(fs::directory_iterator(absl::StrCat("/proc/", process_, "/fd"), error), {});
  for (const char* name : {"jobs.db", "jobs.db-wal"}) sample.record_bytes += SizeOf(fs::path(folder_) / name);
  samples_.push_back(sample);
}

void PrintLoad(const LoadResult& result, const Growth& growth) {
  std::printf("jobs taken %lld, refused %zu, COMPLETED once %lld, others %lld, runs %lld, watches open %d\n",
              static_cast<long long>(result.jobs), result.refused.size(), static_cast<long long>(result.completed_once),
              static_cast<long long>(result.others), static_cast<long long>(result.runs), result.watchers_left);
  if (!result.refused.empty()) std::printf("first refusal: %s\n", result.refused[0].c_str());
  PrintQuantiles("creation", result.create);
  PrintQuantiles("creation to end", result.to_end);
  PrintProcess(growth);
  const Growth::Sample &first = growth.samples().front(), &last = growth.samples().back();
  std::printf("records %.1f MB at first, %.1f MB at last, %.0f bytes per job\n",
              1e-6 * static_cast<double>(first.record_bytes), 1e-6 * static_cast<double>(last.record_bytes),
              static_cast<double>(last.record_bytes - first.record_bytes) /
                  static_cast<double>(std::max<int64_t>(1, result.jobs)));
}

void PrintHttpLoad(const std::vector<double>& create, const std::vector<std::string>& refused, int streams,
                   const Growth& gateway) {
  std::printf("through the gateway: jobs taken %zu, refused %zu, event streams open %d\n", create.size(),
              refused.size(), streams);
  if (!refused.empty()) std::printf("first refusal: %s\n", refused[0].c_str());
  PrintQuantiles("creation", create);
  PrintProcess(gateway);
}

}  // namespace kinora
