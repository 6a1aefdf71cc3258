// A proxy before a PostgreSQL server that breaks connections at a chosen message of the protocol, and can be away.
// Clients must not encrypt: sslmode=disable and gssencmode=disable.
#ifndef KINORA_TESTS_TESTING_CUTTING_PROXY_H_
#define KINORA_TESTS_TESTING_CUTTING_PROXY_H_

#include <list>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace kinora {

class CuttingProxy {
 public:
  enum class Cut {
    kBefore,  // the message does not reach the server
    kAfter,   // it does, and the connection ends at once
    kAnswer,  // the server has answered it, and the answer is lost
  };

  explicit CuttingProxy(int server_port);
  ~CuttingProxy();

  int port() const { return port_; }
  // Breaks the connection that carries message number `message`, counted from 1 from this call on, of all clients.
  void CutAt(int message, Cut how);
  void CutAll();            // all connections that are open now
  void SetAway(bool away);  // true: ends all connections and accepts none
  bool has_cut() const;     // since CutAt

 private:
  struct Connection {
    int client = -1, server = -1;
    std::string unread{};  // of the client: not a whole message yet
    bool started = false;  // the first message has no type
    bool loses_answers = false;
    std::thread thread{};
  };
  void Accept();
  void Carry(Connection& connection);
  // Forwards the client's whole messages. Returns false if the connection is to end.
  bool Forward(Connection& connection);
  bool Send(Connection& connection, const std::string& message);

  const int server_port_;
  int listener_ = -1, port_ = 0;
  mutable absl::Mutex mu_;
  int messages_ ABSL_GUARDED_BY(mu_) = 0, cut_at_ ABSL_GUARDED_BY(mu_) = 0;
  Cut how_ ABSL_GUARDED_BY(mu_) = Cut::kBefore;
  bool has_cut_ ABSL_GUARDED_BY(mu_) = false, away_ ABSL_GUARDED_BY(mu_) = false;
  std::list<Connection> connections_ ABSL_GUARDED_BY(mu_);  // each one's fields belong to its thread
  std::thread acceptor_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_CUTTING_PROXY_H_
