// Writes the job store that the tests keep for each schema version (sample_jobs.h): write_sample_jobs PATH. PATH must
// not exist: stores of released versions are never rewritten.
#include <filesystem>
#include <iostream>

#include "tests/server/frontend/jobs/sample_jobs.h"

int main(int argc, char** argv) {
  if (argc != 2 || std::filesystem::exists(argv[1])) {
    std::cerr << "usage: write_sample_jobs PATH (of no file)\n";
    return 2;
  }
  kinora::FakeClock clock(kinora::kSampleStart);
  auto store = kinora::SqliteJobStore::Open(argv[1], {}, clock, [](const kinora::v1::VideoEvent&) {});
  if (!store.ok()) {
    std::cerr << store.status() << "\n";
    return 1;
  }
  kinora::MakeSampleJobs(**store, clock);
  return 0;
}
