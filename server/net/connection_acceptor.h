// Accepts connections on its own sockets and hands them to a server of any protocol. Has one thread.
//
// - At most `max_connections` are open at once; further ones are closed.
// - A Unix socket accepts only connections of this process's user and of root.
// - Running out of descriptors or memory does not stop it: it uses a reserved descriptor to accept and close
//   connections until there are descriptors again.
// - It regularly shows TCP connections that receive data to `overdone`, which may have them cut.
#ifndef KINORA_SERVER_NET_CONNECTION_ACCEPTOR_H_
#define KINORA_SERVER_NET_CONNECTION_ACCEPTOR_H_

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "server/net/listen_address.h"

namespace kinora {

class ConnectionAcceptor {
 public:
  enum class RejectReason { kFull, kForeignUser, kNoDescriptors, kOverdone };
  static constexpr RejectReason kRejectReasons[] = {RejectReason::kFull, RejectReason::kForeignUser,
                                                    RejectReason::kNoDescriptors, RejectReason::kOverdone};

  struct Connection {
    int fd = -1;  // owned by the server after `take`
    SocketAddress peer;
    bool own = false;  // made by ConnectToSelf
    uint64_t id = 0;   // 1, 2, …: unique within this acceptor
  };

  struct Options {
    std::string field;  // "address", "admin_address": in messages and in the log
    std::string address;
    bool local_only = false;  // as ListeningSockets::Bind
    int max_connections = 0;
    // The callbacks run on the acceptor's thread; Stop also calls `count`. `take` takes ownership of the descriptor,
    // which is non-blocking and close-on-exec.
    std::function<void(const Connection&)> take;
    // Called for TCP connections while they receive data, at most every 20 ms each. True: cut it. May be empty.
    std::function<bool(const Connection&)> overdone;
    std::function<void(uint64_t id)> closed;    // may be empty
    std::function<void(RejectReason)> refused;  // may be empty
    std::function<void(int open)> count;        // may be empty
    const Clock& steady = Clock::Steady();
  };

  // Binds and listens, but accepts nothing before Start. Errors: those of ListeningSockets::Bind.
  static absl::StatusOr<std::unique_ptr<ConnectionAcceptor>> Bind(Options options);
  ~ConnectionAcceptor() { Stop(); }

  void Start();
  // Closes the listening sockets and forgets the connections, which stay open in their server. Idempotent.
  void Stop();
  int port() const { return port_; }

  // Opens a connection to the first listening address. `take` receives it with `own` set, and it is exempt from
  // max_connections. Fails with a code of FileError, such as Unavailable, if it is not made within `patience`. One call
  // at a time.
  absl::StatusOr<FileDescriptor> ConnectToSelf(absl::Duration patience);

 private:
  struct Open {
    Connection connection;
    FileDescriptor twin;  // the same socket: reports its end, and can cut it
    ino_t inode = 0;
  };
  struct Notice {  // log line about rejections, one per 10 s and reason
    absl::Time next = absl::InfinitePast();
    int64_t since = 0;
  };

  explicit ConnectionAcceptor(Options options) : options_(std::move(options)) {}
  void Run();
  int MillisecondsToNextTask() const;  // −1: there is none
  void RunTasks();
  void Accept(int listener);
  bool SurviveFailedAccept(int listener, int error);  // returns whether to go on accepting
  void Admit(FileDescriptor accepted, const SocketAddress& peer);
  bool IsOwn(const FileDescriptor& accepted, const SocketAddress& peer);
  void OnEvent(uint64_t id, uint32_t events);
  void Look(uint64_t id);
  void ForgetClosed();
  void Reject(RejectReason why, const SocketAddress& peer);
  void Listen(bool on);
  void Watch(int operation, uint64_t id, const Open& open);
  void CountOpen();

  Options options_;
  ListeningSockets listening_;
  int port_ = 0;
  FileDescriptor epoll_, wake_, reserve_;
  std::thread thread_;

  // Used only by the thread.
  std::map<uint64_t, Open> open_;
  std::deque<std::pair<absl::Time, uint64_t>> to_look_;  // soonest first
  std::map<uint64_t, Open> closing_;                     // ended, but perhaps not yet closed by the server
  absl::Time paused_until_;                              // nothing is accepted before
  bool paused_ = false;
  uint64_t last_id_ = 0;
  std::map<RejectReason, Notice> notices_;

  absl::Mutex mu_;
  std::string own_ ABSL_GUARDED_BY(mu_);  // ClientName of a pending ConnectToSelf; "": there is none
};

// "full", "foreign_user", "no_descriptors", "overdone": the value of a metric's label.
const char* RejectReasonName(ConnectionAcceptor::RejectReason reason);

}  // namespace kinora

#endif  // KINORA_SERVER_NET_CONNECTION_ACCEPTOR_H_
