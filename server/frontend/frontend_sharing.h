// The part of a frontend that deals with the others that share its database and bucket: it calls them and answers their
// calls, tells ranks where their group is, and hands over clients. It does nothing if the frontend shares nothing.
#ifndef KINORA_SERVER_FRONTEND_FRONTEND_SHARING_H_
#define KINORA_SERVER_FRONTEND_FRONTEND_SHARING_H_

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/clock.h"
#include "kinora/v1/config.pb.h"
#include "server/frontend/api/service_context.h"
#include "server/frontend/api/video_service.h"
#include "server/frontend/groups/dispatcher.h"
#include "server/frontend/groups/group_homes.h"
#include "server/frontend/jobs/shared_clients.h"
#include "server/frontend/jobs/shared_events.h"
#include "server/frontend/peers/peer_address.h"
#include "server/frontend/peers/peer_server.h"
#include "server/frontend/peers/peers.h"
#include "server/frontend/peers/progress_relay.h"
#include "server/frontend/stores.h"

namespace kinora {

class FrontendSharing {
 public:
  struct Parts {  // of the frontend; not owned
    Stores& stores;
    EventHub& hub;
    SharedEvents* events;  // null if it shares nothing
    Clock& steady;
  };
  FrontendSharing(const v1::FrontendConfig& config, const FrontendId& id, const Parts& parts)
      : config_(config), entry_(EntryOf(config, id)), parts_(parts) {}
  ~FrontendSharing() { Stop(); }

  // Errors name the field of the configuration. cancel_left: ends a job whose client has gone.
  absl::Status Start(std::function<void(const JobId&)> cancel_left);
  // Sets the options by which a dispatcher asks other frontends.
  void AddTo(DispatcherOptions& options);
  // `dispatcher` must live until Stop.
  void Use(Dispatcher& dispatcher) { dispatcher_ = &dispatcher; }
  // Calls of other frontends are answered from now on. metrics, gauges: must outlive this.
  absl::Status Serve(JobMetrics& metrics, FrontendMetrics& gauges);

  const FrontendEntry& entry() const { return entry_; }
  GroupHomes* homes() { return homes_.get(); }                // null if it shares nothing
  SharedClients* clients() { return shared_clients_.get(); }  // likewise
  // Controls the groups of all frontends.
  GroupControl Control();
  // Tell the others of an event that this frontend has stored, and that it has stored that a job is to be cancelled.
  void Tell(const v1::VideoEvent& event);
  void TellCancelled();

  void BeginDrain();
  // Removes this frontend from the database, so that others need not wait for the end of its lease. Blocks.
  void Leave();
  void Stop();

 private:
  GroupControl ControlOfOwn();
  GroupControl ControlOfOwnAlone();  // there is no other frontend to name
  void ListAll(Done<std::vector<v1::WorkerGroup>> done);
  void Change(const v1::WorkerGroupRequest& request, bool drain, Done<v1::WorkerGroup> done);
  void ChangeAt(const v1::WorkerGroupRequest& request, bool drain, Done<v1::WorkerGroup> done);
  void OnNews(const v1::News& news);

  const v1::FrontendConfig& config_;
  const FrontendEntry entry_;
  const Parts parts_;
  Dispatcher* dispatcher_ = nullptr;
  std::set<std::string> awaited_;  // groups that may join any frontend
  std::unique_ptr<SharedClients> shared_clients_;
  std::unique_ptr<GroupHomes> homes_;
  std::unique_ptr<ProgressRelay> relay_;  // uses peers_ until they are stopped
  std::unique_ptr<Peers> peers_;          // null: no peer_address
  std::unique_ptr<PeerServer> server_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_FRONTEND_SHARING_H_
