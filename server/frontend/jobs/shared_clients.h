// Ends jobs whose client is gone (detach = false), where several frontends share a store and a client may watch on at
// another one. The frontend that holds a job's client, and at which nobody watches the job any more, offers it to the
// others. One at which somebody does takes it; if none has after a few polls, the job is cancelled.
#ifndef KINORA_SERVER_FRONTEND_JOBS_SHARED_CLIENTS_H_
#define KINORA_SERVER_FRONTEND_JOBS_SHARED_CLIENTS_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "server/frontend/jobs/event_hub.h"
#include "server/frontend/jobs/job_store.h"
#include "server/net/executor.h"

namespace kinora {

class SharedClientRecords {
 public:
  virtual ~SharedClientRecords() = default;

  // Offers the client of a job that `id` holds; false: another frontend holds it, or the job has ended.
  virtual void OfferClient(const JobId& job, const FrontendId& id, Done<bool> done) = 0;
  // Ends the offer; false: another frontend has taken it.
  virtual void EndOffer(const JobId& job, const FrontendId& id, Done<bool> done) = 0;
  // Takes those of these jobs' clients that are offered, and returns them.
  virtual void TakeOffered(const std::vector<JobId>& jobs, const FrontendId& id, Done<std::vector<JobId>> done) = 0;
};

struct SharedClientsOptions {
  FrontendId id;
  absl::Duration grace = absl::Seconds(30);  // without a watcher, before the client is offered
  absl::Duration poll = absl::Seconds(2);    // how often offers are looked for
  std::function<void(const JobId&)> cancel;
};

class SharedClients {
 public:
  // Neither is owned; flush the stores after Stop. loop: for its timers.
  SharedClients(EventHub& hub, SharedClientRecords& records, SharedClientsOptions options,
                std::unique_ptr<Executor> loop);
  ~SharedClients() { Stop(); }
  void Stop() { loop_->Stop(); }

  // The client of a job that this frontend holds has gone. Any thread.
  void Left(const JobId& job);

 private:
  static constexpr int kPollsToTake = 5;

  void Check(const JobId& job);
  void Settle(const JobId& job);
  void Poll();

  EventHub& hub_;
  SharedClientRecords& records_;
  const SharedClientsOptions options_;
  const std::unique_ptr<Executor> loop_;  // last: its thread ends before other members are destroyed
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_SHARED_CLIENTS_H_
