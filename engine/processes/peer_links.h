// Connections between ranks that are processes, on one host or several: TCP between those who prove that they know the
// group's key. Nothing that a stranger sends is read beyond the bytes of that proof, and the port is closed once the
// ranks have found each other. What is sent afterwards is not encrypted (docs/security.md).
//
//   the one that listens → a number drawn for this connection
//   the one that dials   → a number drawn too, both ranks, the communicator's name, HMAC-SHA256 over all of it
//   the one that listens → HMAC-SHA256 over the same, marked as the answer
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
// kGroupKeyBytes of the kernel's random numbers.
std::string DrawGroupKey();

struct PeerOptions {
  // Known to the ranks of the group and to nobody else; other in each incarnation. kGroupKeyBytes (CHECK).
  std::string key;
  // Where the other ranks reach this one: an address of this host, or the name of an interface that has one.
  std::string interface = "127.0.0.1";
  absl::Duration patience = absl::Minutes(5);  // for the other ranks
};

class PeerLinks {
 public:
  // Listens, and publishes where. InvalidArgument: neither an address nor a name that an interface may have;
  // Unavailable: no interface of that name has an address now. Both name those there are.
  static absl::StatusOr<std::unique_ptr<PeerLinks>> Open(int rank, PeerOptions options, Rendezvous& rendezvous);
  ~PeerLinks();

  // One connection to each of `members`: ranks of the whole group, in the order of the communicator; none at this
  // rank's own place. Not blocking, closed on exec. All members call this with the same name, of at most 31 bytes, and
  // the same list, and no two calls have the same name. DeadlineExceeded names the ranks that are missing; Unavailable;
  // PermissionDenied: who listens does not know the key; Aborted after Abort.
  absl::StatusOr<std::vector<FileDescriptor>> Connect(const std::string& name, absl::Span<const int> members);
  // Ends Connect, now and later. Thread-safe.
  void Abort();

 private:
  struct Arrival;  // somebody who has not proved anything yet
  PeerLinks(int rank, PeerOptions options, Rendezvous& rendezvous);
  absl::Status Listen();
  absl::StatusOr<FileDescriptor> Dial(const std::string& name, int peer, absl::Time deadline);
  absl::StatusOr<FileDescriptor> AwaitArrival(const std::string& name, int peer, absl::Time deadline);
  absl::Status Look(absl::Time deadline);  // waits for something to happen at the listener or an arrival
  absl::Status Accept();                   // whoever is at the listener
  bool Advance(Arrival& arrival);          // false: it has ended, well or badly
  absl::Status WaitFor(int fd, short events, absl::Time deadline) const;
  absl::Status Send(int fd, std::string_view bytes, absl::Time deadline) const;
  absl::StatusOr<std::string> Read(int fd, size_t bytes, absl::Time deadline) const;

  const int rank_;
  const PeerOptions options_;
  Rendezvous& rendezvous_;
  FileDescriptor listener_, abort_;  // abort_: an eventfd
  std::vector<std::unique_ptr<Arrival>> arrivals_;
  std::map<std::pair<std::string, int>, FileDescriptor> proven_;  // by name and rank, until they are asked for
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PROCESSES_PEER_LINKS_H_
