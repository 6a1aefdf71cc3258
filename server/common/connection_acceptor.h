// Accepts connections on sockets of its own and hands them to whoever serves them; knows no protocol. One thread.
//
// - No more than `max_connections` are open at once; what comes beyond is closed.
// - A Unix socket takes connections of this process's own user and of root alone.
// - A lack of descriptors or of memory ends nothing: with a descriptor kept in reserve, connections are taken and
//   closed until there are descriptors again.
// - A connection that brings data is shown to `overdone` now and then, which may have it cut.
#ifndef KINORA_SERVER_COMMON_CONNECTION_ACCEPTOR_H_
#define KINORA_SERVER_COMMON_CONNECTION_ACCEPTOR_H_

#include <sys/types.h>

#include <chrono>
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
#include "server/common/listen_address.h"

namespace kinora {

class ConnectionAcceptor {
 public:
  enum class Refusal { kFull, kForeignUser, kNoDescriptors, kOverdone };
  static constexpr Refusal kRefusals[] = {Refusal::kFull, Refusal::kForeignUser, Refusal::kNoDescriptors,
                                          Refusal::kOverdone};

  struct Connection {
    int fd = -1;  // given away with `take`
    SocketAddress peer;
    bool own = false;  // made by ConnectToSelf
    uint64_t id = 0;   // 1, 2, …: no other connection of this acceptor has or had it
  };

  struct Options {
    std::string field;  // "address", "admin_address": in messages and in the log
    std::string address;
    bool local_only = false;  // as ListeningSockets::Bind
    int max_connections = 0;
    // Everything below runs on the acceptor's thread. Takes the descriptor, which is non-blocking and close-on-exec.
    std::function<void(const Connection&)> take;
    // Asked about TCP connections while they bring data, at most every 20 ms each; true: cut it. May be empty.
    std::function<bool(const Connection&)> overdone;
    std::function<void(uint64_t id)> closed;  // may be empty
    std::function<void(Refusal)> refused;     // may be empty
    std::function<void(int open)> count;      // may be empty
  };

  // Binds and listens, but takes nothing before Start. Errors: those of ListeningSockets::Bind.
  static absl::StatusOr<std::unique_ptr<ConnectionAcceptor>> Bind(Options options);
  ~ConnectionAcceptor() { Stop(); }

  void Start();
  // Closes the listening sockets and forgets the connections, which live on where they were taken. Idempotent.
  void Stop();
  int port() const { return port_; }

  // A new connection to the first address that is listened on, which `take` will see as `own`; counts for no limit.
  // Unavailable: it could not be made within `patience`. One call at a time.
  absl::StatusOr<FileDescriptor> ConnectToSelf(absl::Duration patience);

 private:
  struct Open {
    Connection connection;
    FileDescriptor twin;  // the same socket: tells its end, and can end it
    ino_t inode = 0;
  };
  using Instant = std::chrono::steady_clock::time_point;
  struct Notice {  // of refusals: one line per 10 s
    Instant next;
    int64_t since = 0;
  };

  explicit ConnectionAcceptor(Options options) : options_(std::move(options)) {}
  void Run();
  int MillisecondsToNextTask() const;  // −1: none waits
  void RunTasks();
  void Accept(int listener);
  bool SurviveFailedAccept(int listener, int error);  // whether to go on
  void Admit(FileDescriptor accepted, const SocketAddress& peer);
  bool IsOwn(const FileDescriptor& accepted, const SocketAddress& peer);
  void OnEvent(uint64_t id, uint32_t events);
  void Look(uint64_t id);
  void ForgetClosed();
  void Refuse(Refusal why, const SocketAddress& peer);
  void Listen(bool on);
  void Watch(int operation, uint64_t id, const Open& open);
  void CountOpen();

  Options options_;
  ListeningSockets listening_;
  int port_ = 0;
  FileDescriptor epoll_, wake_, reserve_;
  std::thread thread_;

  // Of the thread.
  std::map<uint64_t, Open> open_;
  std::deque<std::pair<Instant, uint64_t>> to_look_;  // in the order of their times
  std::map<uint64_t, Open> closing_;                  // over, and perhaps not closed yet by who took them
  Instant paused_until_;                              // nothing is accepted before
  bool paused_ = false;
  uint64_t last_id_ = 0;
  std::map<Refusal, Notice> notices_;

  absl::Mutex mu_;
  std::string own_ ABSL_GUARDED_BY(mu_);  // the name that ConnectToSelf connects from; "": none is awaited
};

// "full", "foreign_user", "no_descriptors", "overdone": the value of a metric's label.
const char* RefusalName(ConnectionAcceptor::Refusal refusal);

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_CONNECTION_ACCEPTOR_H_
