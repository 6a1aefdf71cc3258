// One open event stream. It sends the events of a JobWatch (job_watch.h) and ends with OK after the terminal event.
#ifndef KINORA_SERVER_FRONTEND_API_WATCH_REACTOR_H_
#define KINORA_SERVER_FRONTEND_API_WATCH_REACTOR_H_

#include <grpcpp/server_context.h>

#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/frontend/api/reply_stream.h"
#include "server/frontend/api/service_context.h"
#include "server/frontend/jobs/job_watch.h"

namespace kinora {

class WatchReactor : public ReplyStream<v1::VideoEvent>, public std::enable_shared_from_this<WatchReactor> {
 public:
  // `on_left`: the stream of this video ended before the job did.
  using LeftListener = std::function<void(const JobId& id)>;
  // Lives until its stream is done and no other reference is left.
  static std::shared_ptr<WatchReactor> Make(ServiceContext& context, LeftListener on_left = nullptr);

  void Watch(const JobId& id, int64_t after_sequence);          // once
  void Fail(const absl::Status& status);                        // instead of Watch
  void AddReplayedMetadata(grpc::CallbackServerContext& call);  // before Watch

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  WatchReactor(ServiceContext& context, LeftListener on_left);
  void Pump() ABSL_LOCKS_EXCLUDED(mu_);
  void FinishOnce(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  ServiceContext& context_;
  const LeftListener on_left_;
  std::shared_ptr<WatchReactor> self_;  // until OnDone

  absl::Mutex mu_;
  JobId id_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<JobWatch> watch_ ABSL_GUARDED_BY(mu_);
  v1::VideoEvent writing_event_;  // constant while `writing_`
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  bool done_ ABSL_GUARDED_BY(mu_) = false;      // OnDone has run
  bool terminal_ ABSL_GUARDED_BY(mu_) = false;  // the last event was taken
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_WATCH_REACTOR_H_
