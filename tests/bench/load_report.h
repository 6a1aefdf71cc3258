// Summaries of a frontend's behaviour under load, for serving_load and store_bench.
#ifndef KINORA_TESTS_BENCH_LOAD_REPORT_H_
#define KINORA_TESTS_BENCH_LOAD_REPORT_H_

#include <grpcpp/grpcpp.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kinora/v1/video_generation.grpc.pb.h"

namespace kinora {

void OrDie(const grpc::Status& status);
// Waits until requests for the model are accepted.
void AwaitModel(v1::VideoGeneration::Stub& stub, const std::string& model);

double Quantile(std::vector<double> values, double q);  // 0 if there are no values

// Samples the size of a process and of its state files.
class Growth {
 public:
  Growth(pid_t process, std::string folder) : process_(process), folder_(std::move(folder)) {}
  void Look();
  struct Sample {
    int64_t resident_bytes = 0, descriptors = 0, record_bytes = 0;
  };
  const std::vector<Sample>& samples() const { return samples_; }

 private:
  pid_t process_;
  std::string folder_;
  std::vector<Sample> samples_;
};

struct LoadResult {
  int64_t jobs = 0;
  std::vector<std::string> refused;
  int64_t completed_once = 0, others = 0, runs = 0;
  int watchers_left = 0;
  std::vector<double> create, to_end;  // seconds
};
void PrintLoad(const LoadResult& result, const Growth& growth);
// What was measured of a gateway: seconds per creation, replies other than 200, open event streams, and its process.
void PrintHttpLoad(const std::vector<double>& create, const std::vector<std::string>& refused, int streams,
                   const Growth& gateway);

}  // namespace kinora

#endif  // KINORA_TESTS_BENCH_LOAD_REPORT_H_
