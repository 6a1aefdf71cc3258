// Load on one gateway, for serving_load: event streams of a job that does not move, and creations at a given rate.
#ifndef KINORA_TESTS_BENCH_HTTP_LOAD_H_
#define KINORA_TESTS_BENCH_HTTP_LOAD_H_

#include <sys/types.h>

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/file_descriptor.h"
#include "tests/testing/subprocess.h"

namespace kinora {

class HttpLoad {
 public:
  // Starts a gateway in front of the frontend, with limits that allow the load, and opens the streams,
  // all at once.
  HttpLoad(const std::string& frontend, int watchers, const std::string& watched_job);
  ~HttpLoad();

  pid_t gateway() const { return gateway_.pid(); }
  // Creates a job, on a connection that stays open. Returns at once.
  void Create(absl::Time due) ABSL_LOCKS_EXCLUDED(mu_);

  int watchers() const { return watchers_; }                          // still open
  int waiting() const ABSL_LOCKS_EXCLUDED(mu_);                       // creations without an answer
  std::vector<double> latencies() const ABSL_LOCKS_EXCLUDED(mu_);     // seconds since `due`
  std::vector<std::string> refused() const ABSL_LOCKS_EXCLUDED(mu_);  // replies other than 200

 private:
  std::string AwaitPort();
  void OpenWatches(int count, const std::string& job);
  void ReadWatches();
  void CreateJobs();
  std::string AwaitReply(const FileDescriptor& socket);

  Subprocess gateway_;
  const std::string port_;
  std::vector<FileDescriptor> streams_;
  FileDescriptor streams_queue_;  // epoll
  std::atomic<int> watchers_ = 0;
  std::atomic<bool> stopping_ = false;

  mutable absl::Mutex mu_;
  std::deque<absl::Time> due_ ABSL_GUARDED_BY(mu_);
  int in_progress_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<double> latencies_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> refused_ ABSL_GUARDED_BY(mu_);
  std::vector<std::thread> threads_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_BENCH_HTTP_LOAD_H_
