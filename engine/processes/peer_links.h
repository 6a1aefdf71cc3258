// Connections between ranks that are processes, on one host or several: TCP between peers that prove that they have the
// group's key. Nothing from a peer is read beyond those bytes before it has proved itself, and the port is closed once
// the ranks are connected. Later traffic is not encrypted (docs/security.md).
//
//   listener → a random nonce for this connection
//   dialler  → a nonce of its own, both ranks, the communicator's name, HMAC-SHA256 over all of it
//   listener → HMAC-SHA256 over the same, marked as the answer
#ifndef KINORA_ENGINE_PROCESSES_PEER_LINKS_H_
#define KINORA_ENGINE_PROCESSES_PEER_LINKS_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/base/file_descriptor.h"
#include "engine/processes/rendezvous.h"

namespace kinora {

inline constexpr size_t kGroupKeyBytes = 32;
// Returns kGroupKeyBytes of the kernel's random numbers.
std::string DrawGroupKey();

struct PeerOptions {
  // A secret of the group's ranks, new in each incarnation; kGroupKeyBytes (CHECK).
  std::string key;
  // Where the other ranks reach this one: an address of this host, or the name of an interface with an address.
  std::string interface = "127.0.0.1";
  absl::Duration patience = absl::Minutes(5);  // limit on the wait for the other ranks
};

class PeerLinks {
 public:
  // Listens and publishes the address. Fails with InvalidArgument if `interface` is neither an address nor a possible
  // interface name, with Unavailable if it is a name that has no address now; both list the existing interfaces.
  static absl::StatusOr<std::unique_ptr<PeerLinks>> Open(int rank, PeerOptions options, Rendezvous& rendezvous);
  ~PeerLinks();

  // Returns one connection to each of `members`: ranks of the whole group, in the order of the communicator; none at
  // this rank's index. Non-blocking, closed on exec. All members call this with the same list and the same name, at
  // most 31 bytes and unique. Fails with DeadlineExceeded if a rank does not connect or answer; Unavailable;
  // PermissionDenied if the listener does not have the key; Aborted after Abort.
  absl::StatusOr<std::vector<FileDescriptor>> Connect(const std::string& name, absl::Span<const int> members);
  // Ends the current and all later calls of Connect. Thread-safe.
  void Abort();

 private:
  struct Arrival;  // a connection without a proof yet
  PeerLinks(int rank, PeerOptions options, Rendezvous& rendezvous);
  absl::Status Listen();
  absl::StatusOr<FileDescriptor> Dial(const std::string& name, int peer, absl::Time deadline);
  absl::StatusOr<FileDescriptor> AwaitArrival(const std::string& name, int peer, absl::Time deadline);
  absl::Status Look(absl::Time deadline);  // waits for an event at the listener or an arrival
  absl::Status Accept();                   // accepts one connection from the listener
  bool Advance(Arrival& arrival);          // false: the arrival is done, proven or not
  absl::Status WaitFor(int fd, short events, absl::Time deadline) const;
  absl::Status Send(int fd, std::string_view bytes, absl::Time deadline) const;
  absl::StatusOr<std::string> Read(int fd, size_t bytes, absl::Time deadline) const;

  const int rank_;
  const PeerOptions options_;
  Rendezvous& rendezvous_;
  FileDescriptor listener_, abort_;  // abort_: an eventfd
  std::vector<std::unique_ptr<Arrival>> arrivals_;
  std::map<std::pair<std::string, int>, FileDescriptor> proven_;  // by name and rank, until Connect returns them
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PROCESSES_PEER_LINKS_H_
