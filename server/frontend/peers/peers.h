// The other frontends that share this one's database, as found there, and calls to them (peer.proto). A call to a
// frontend that cannot be reached fails after a time limit; nothing but that call depends on it.
#ifndef KINORA_SERVER_FRONTEND_PEERS_PEERS_H_
#define KINORA_SERVER_FRONTEND_PEERS_PEERS_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kinora/v1/peer.grpc.pb.h"
#include "server/common/grpc_deadline.h"
#include "server/frontend/jobs/shared_frontends.h"
#include "server/net/call_count.h"
#include "server/net/executor.h"
#include "server/net/grpc_status.h"

namespace kinora {

struct PeersOptions {
  FrontendId id;        // of this frontend
  std::string address;  // where others call it
  std::string token{};  // "": none is sent
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  std::string certified_name{};  // in the others' certificates; "": the host of their address
  absl::Duration refresh = absl::Seconds(2);
};

class Peers {
 public:
  struct Peer {
    FrontendEntry frontend;
    std::unique_ptr<v1::Peer::Stub> stub;
    v1::News news{};       // to be told next
    bool telling = false;  // a call with earlier news is open
  };
  using PeerPtr = std::shared_ptr<Peer>;
  template <typename Request, typename Reply>
  using Method = void (v1::Peer::StubInterface::async_interface::*)(grpc::ClientContext*, const Request*, Reply*,
                                                                    std::function<void(grpc::Status)>);

  // records: not owned; flush them after Stop. loop: where all happens, and all callbacks run.
  Peers(SharedFrontendRecords& records, PeersOptions options, std::unique_ptr<Executor> loop);
  ~Peers() { Stop(); }
  void Stop();  // cancels open calls; no callback runs after it

  // Tells all others. They learn of it later anyway.
  void Tell(const v1::News& news);  // any thread

  // Asks one frontend after the other until a group with the model answers. InvalidArgument: it rejects the request.
  // Unavailable: none has answered. is_job: PeerEstimateRequest.is_job; takes no longer than a client that creates a
  // job waits. Any thread.
  void Estimate(const std::string& model, const v1::Generation& effective, bool is_job, Done<v1::Estimate> done);
  // The groups of all others, each with its frontend. For a frontend that does not answer there is one group with the
  // state "unreachable". Any thread.
  void ListGroups(Done<std::vector<std::vector<v1::WorkerGroup>>> done);
  // request.frontend names one of them, or NotFound. Any thread.
  void DrainGroup(const v1::WorkerGroupRequest& request, Done<v1::WorkerGroup> done);
  void RestartGroup(const v1::WorkerGroupRequest& request, Done<v1::WorkerGroup> done);

  Executor& loop() { return *loop_; }
  std::vector<PeerPtr> all() const;  // on the loop

  // On the loop.
  template <typename Request, typename Reply>
  void Call(const PeerPtr& peer, Method<Request, Reply> method, Request request, absl::Duration timeout,
            std::function<void(absl::StatusOr<Reply>)> on_reply) {
    auto call = std::make_shared<UnaryCall<Request, Reply>>();
    call->counted = calls_.Begin();
    call->peer = peer;
    call->request = std::move(request);
    if (!Open(call->context, timeout)) return;
    (peer->stub->async()->*method)(&call->context, &call->request, &call->reply,
                                   [this, call, on_reply = std::move(on_reply)](const grpc::Status& status) mutable {
                                     Close(call->context);
                                     loop_->Post([call, on_reply = std::move(on_reply), status] {
                                       if (!status.ok()) return on_reply(FromGrpcStatus(status));
                                       on_reply(std::move(call->reply));
                                     });
                                   });
  }

 private:
  template <typename Request, typename Reply>
  struct UnaryCall {
    std::shared_ptr<void> counted;  // released last
    PeerPtr peer;
    grpc::ClientContext context;
    Request request;
    Reply reply;
  };
  bool Open(grpc::ClientContext& context, absl::Duration timeout);  // false: stopped
  void Close(grpc::ClientContext& context);
  void Refresh();
  void OnFrontends(const std::vector<FrontendEntry>& frontends);
  void SendNews(const PeerPtr& peer);
  void EstimateAt(std::vector<PeerPtr> peers, const v1::PeerEstimateRequest& request, absl::Time end,
                  Done<v1::Estimate> done);
  void ChangeGroup(Method<v1::WorkerGroupRequest, v1::WorkerGroup> method, const v1::WorkerGroupRequest& request,
                   Done<v1::WorkerGroup> done);
  std::shared_ptr<grpc::Channel> Dial(const std::string& address) const;

  SharedFrontendRecords& records_;
  const PeersOptions options_;
  std::map<FrontendId, PeerPtr> peers_;  // on the loop
  absl::Mutex mu_;
  std::set<grpc::ClientContext*> open_ ABSL_GUARDED_BY(mu_);
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  const std::unique_ptr<Executor> loop_;
  CallCount calls_;  // last: waits for calls, whose callbacks use the loop
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_PEERS_PEERS_H_
