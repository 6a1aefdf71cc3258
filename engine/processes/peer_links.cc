#include "engine/processes/peer_links.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "engine/base/uninterrupted.h"

namespace kinora {
namespace {

constexpr size_t kNonceBytes = 32, kMacBytes = 32, kNameBytes = 32;
constexpr size_t kMaxArrivals = 64;                           // beyond it, the oldest is dropped
constexpr absl::Duration kProofPatience = absl::Seconds(10);  // for an arrival to send its proof

// The dialler's claim, followed by its MAC. Both ranks' MACs cover the listener's nonce and the claim.
struct Claim {
  char nonce[kNonceBytes];
  uint32_t from, to;  // network byte order
  char name[kNameBytes];
};
constexpr size_t kProofBytes = sizeof(Claim) + kMacBytes;

std::string_view Bytes(const Claim& claim) { return {reinterpret_cast<const char*>(&claim), sizeof claim}; }

std::string DrawBytes(size_t count) {
  std::string bytes(count, '\0');
  KINORA_CHECK_EQ(getrandom(bytes.data(), count, 0), static_cast<ssize_t>(count));
  return bytes;
}

std::string Mac(const std::string& key, std::string_view role, std::string_view nonce, const Claim& claim) {
  const std::string text = absl::StrCat(std::string(role), std::string(nonce), std::string(Bytes(claim)));
  unsigned char mac[EVP_MAX_MD_SIZE];
  unsigned int bytes = 0;
  KINORA_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                    reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac, &bytes) != nullptr);
  return {reinterpret_cast<const char*>(mac), bytes};
}

bool SameMac(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

absl::Status Failed(const char* what, const std::string& where) {
  return absl::UnavailableError(absl::StrCat("cannot ", what, " ", where, ": ", std::strerror(errno)));
}

struct Address {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
  // "10.0.0.5 41234"
  std::string Text() const {
    char host[INET6_ADDRSTRLEN] = "";
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage);
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage);
    const bool is_v4 = storage.ss_family == AF_INET;
    inet_ntop(storage.ss_family, is_v4 ? static_cast<const void*>(&v4->sin_addr) : &v6->sin6_addr, host, sizeof host);
    return absl::StrCat(host, " ", ntohs(is_v4 ? v4->sin_port : v6->sin6_port));
  }
};

std::optional<Address> ParseAddress(const std::string& host, uint16_t port) {
  Address address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    address.bytes = sizeof *v4;
    return address;
  }
  if (inet_pton(AF_INET6, host.c_str(), &v6->sin6_addr) != 1) return std::nullopt;
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(port);
  address.bytes = sizeof *v6;
  return address;
}

// Whether `name` may be an interface that comes up later, rather than a mistyped address.
bool MayBeInterface(const std::string& name) {
  return !name.empty() && name.size() < IFNAMSIZ && name.find_first_of("/: \t\n") == std::string::npos &&
         name.find_first_not_of("0123456789.") != std::string::npos;
}

// Returns `interface` if it is an address, else the first address of the interface of that name, IPv4 before IPv6.
// Fails with Unavailable if no interface of that name has an address now, with InvalidArgument if it cannot be such a
// name.
absl::StatusOr<Address> ResolveInterface(const std::string& interface) {
  if (std::optional<Address> address = ParseAddress(interface, 0)) return *address;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return Failed("list", "the network interfaces");
  const absl::Cleanup free = [list] { freeifaddrs(list); };
  std::string known;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
      if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != family) continue;
      Address address;
      address.bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      std::memcpy(&address.storage, one->ifa_addr, address.bytes);
      if (interface == one->ifa_name) return address;
      const std::vector<std::string> parts = absl::StrSplit(address.Text(), ' ');
      absl::StrAppend(&known, known.empty() ? "" : ", ", one->ifa_name, " (", parts[0], ")");
    }
  }
  const std::string why =
      absl::StrCat("\"", interface, "\" is neither an address nor an interface of this host, which has ", known);
  return MayBeInterface(interface) ? absl::UnavailableError(why) : absl::InvalidArgumentError(why);
}

// Detects a lost host or a cut cable after 20 s: by unanswered probes while nothing is sent, or by unconfirmed data.
void SetLimits(int fd) {
  const int on = 1, idle = 5, interval = 5, probes = 3;
  const unsigned int unconfirmed_ms = 20000;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unconfirmed_ms, sizeof unconfirmed_ms);
}

FileDescriptor TcpSocket(int family) {
  return FileDescriptor(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

int MillisecondsUntil(absl::Time deadline) {
  const absl::Duration left = std::clamp(deadline - Clock::Steady().Now(), absl::ZeroDuration(), absl::Hours(1));
  return static_cast<int>(absl::ToInt64Milliseconds(left)) + (left > absl::ZeroDuration() ? 1 : 0);
}

absl::Status AbortedHere() { return absl::AbortedError("the group of ranks was aborted"); }

}  // namespace

std::string DrawGroupKey() { return DrawBytes(kGroupKeyBytes); }

struct PeerLinks::Arrival {
  FileDescriptor fd;
  std::string nonce;
  std::string proof;  // bytes received so far
  absl::Time deadline;
};

PeerLinks::PeerLinks(int rank, PeerOptions options, Rendezvous& rendezvous)
    : rank_(rank), options_(std::move(options)), rendezvous_(rendezvous), abort_(eventfd(0, EFD_CLOEXEC)) {
  KINORA_CHECK_EQ(options_.key.size(), kGroupKeyBytes);
}

PeerLinks::~PeerLinks() = default;

absl::StatusOr<std::unique_ptr<PeerLinks>> PeerLinks::Open(int rank, PeerOptions options, Rendezvous& rendezvous) {
  auto links = std::unique_ptr<PeerLinks>(new PeerLinks(rank, std::move(options), rendezvous));
  KINORA_RETURN_IF_ERROR(links->Listen());
  return links;
}

absl::Status PeerLinks::Listen() {
  KINORA_ASSIGN_OR_RETURN(Address address, ResolveInterface(options_.interface));
  listener_ = TcpSocket(address.storage.ss_family);
  if (!listener_.ok() || bind(listener_.get(), address.raw(), address.bytes) != 0 ||
      listen(listener_.get(), SOMAXCONN) != 0) {
    return Failed("listen at", options_.interface);
  }
  getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address.storage), &address.bytes);
  rendezvous_.Publish("address", address.Text());
  return absl::OkStatus();
}

void PeerLinks::Abort() { eventfd_write(abort_.get(), 1); }

absl::StatusOr<std::vector<FileDescriptor>> PeerLinks::Connect(const std::string& name, absl::Span<const int> members) {
  KINORA_CHECK(name.size() < kNameBytes) << name;
  const absl::Time deadline = Clock::Steady().Now() + options_.patience;
  std::vector<FileDescriptor> links(members.size());
  // Dials the lower ranks first. A rank that dials waits only for lower ranks, so no two ranks wait for each other.
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i] >= rank_) continue;
    KINORA_ASSIGN_OR_RETURN(links[i], Dial(name, members[i], deadline));
  }
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i] <= rank_) continue;
    KINORA_ASSIGN_OR_RETURN(links[i], AwaitArrival(name, members[i], deadline));
  }
  return links;
}

absl::Status PeerLinks::WaitFor(int fd, short events, absl::Time deadline) const {
  pollfd watched[] = {{fd, events, 0}, {abort_.get(), POLLIN, 0}};
  const int ready = Uninterrupted([&] { return poll(watched, 2, MillisecondsUntil(deadline)); });
  if (watched[1].revents != 0) return AbortedHere();
  if (ready == 0) return absl::DeadlineExceededError("a rank does not answer");
  return absl::OkStatus();
}

absl::Status PeerLinks::Send(int fd, std::string_view bytes, absl::Time deadline) const {
  while (!bytes.empty()) {
    const ssize_t n = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n > 0) {
      bytes.remove_prefix(n);
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) return Failed("write to", "a rank");
    KINORA_RETURN_IF_ERROR(WaitFor(fd, POLLOUT, deadline));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> PeerLinks::Read(int fd, size_t bytes, absl::Time deadline) const {
  std::string text(bytes, '\0');
  for (size_t at = 0; at < bytes;) {
    const ssize_t n = recv(fd, text.data() + at, bytes - at, 0);
    if (n > 0) {
      at += n;
      continue;
    }
    if (n == 0) return absl::PermissionDeniedError("it ended the connection: it does not know the key of this group");
    if (errno != EAGAIN && errno != EINTR) return Failed("read from", "a rank");
    KINORA_RETURN_IF_ERROR(WaitFor(fd, POLLIN, deadline));
  }
  return text;
}

absl::StatusOr<FileDescriptor> PeerLinks::Dial(const std::string& name, int peer, absl::Time deadline) {
  KINORA_ASSIGN_OR_RETURN(const std::string published,
                          rendezvous_.Await(peer, "address", deadline - Clock::Steady().Now()));
  const std::vector<std::string> parts = absl::StrSplit(published, ' ');
  int port = 0;
  const bool valid = parts.size() == 2 && absl::SimpleAtoi(parts[1], &port) && port > 0 && port < 65536;
  const std::optional<Address> address = valid ? ParseAddress(parts[0], port) : std::nullopt;
  if (!address) return absl::InternalError(absl::StrCat("rank ", peer, " published \"", published, "\""));
  const std::string where = absl::StrCat("rank ", peer, " at ", published);

  FileDescriptor fd = TcpSocket(address->storage.ss_family);
  if (!fd.ok()) return Failed("make a socket for", where);
  SetLimits(fd.get());
  if (connect(fd.get(), address->raw(), address->bytes) != 0) {
    if (errno != EINPROGRESS) return Failed("reach", where);
    KINORA_RETURN_IF_ERROR(WaitFor(fd.get(), POLLOUT, deadline));
    int error = 0;
    socklen_t bytes = sizeof error;
    getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
    errno = error;
    if (error != 0) return Failed("reach", where);
  }
  KINORA_ASSIGN_OR_RETURN(const std::string nonce, Read(fd.get(), kNonceBytes, deadline));
  Claim claim{.nonce = {}, .from = htonl(rank_), .to = htonl(peer), .name = {}};
  std::memcpy(claim.nonce, DrawBytes(kNonceBytes).data(), kNonceBytes);
  std::memcpy(claim.name, name.data(), name.size());
  const std::string proof = absl::StrCat(std::string(Bytes(claim)), Mac(options_.key, "dial", nonce, claim));
  KINORA_RETURN_IF_ERROR(Send(fd.get(), proof, deadline));
  const absl::StatusOr<std::string> answer = Read(fd.get(), kMacBytes, deadline);
  if (!answer.ok()) return absl::Status(answer.status().code(), absl::StrCat(where, ": ", answer.status().message()));
  if (!SameMac(*answer, Mac(options_.key, "listen", nonce, claim))) {
    return absl::PermissionDeniedError(absl::StrCat("who answers as ", where, " does not know the key of this group"));
  }
  return fd;
}

absl::StatusOr<FileDescriptor> PeerLinks::AwaitArrival(const std::string& name, int peer, absl::Time deadline) {
  while (true) {
    if (auto found = proven_.extract({name, peer}); !found.empty()) return std::move(found.mapped());
    const absl::Status looked = Look(deadline);
    if (absl::IsDeadlineExceeded(looked)) {
      return absl::DeadlineExceededError(
          absl::StrCat("rank ", peer, " has not come to \"", name, "\" for ", absl::FormatDuration(options_.patience)));
    }
    KINORA_RETURN_IF_ERROR(looked);
  }
}

absl::Status PeerLinks::Look(absl::Time deadline) {
  std::vector<pollfd> watched = {{listener_.get(), POLLIN, 0}, {abort_.get(), POLLIN, 0}};
  absl::Time until = deadline;
  for (const auto& arrival : arrivals_) {
    watched.push_back({arrival->fd.get(), POLLIN, 0});
    until = std::min(until, arrival->deadline);
  }
  const int ready = poll(watched.data(), watched.size(), MillisecondsUntil(until));
  if (ready < 0) return errno == EINTR ? absl::OkStatus() : Failed("wait for", "ranks");
  if (watched[1].revents != 0) return AbortedHere();
  const absl::Time now = Clock::Steady().Now();
  size_t kept = 0;
  for (size_t i = 0; i < arrivals_.size(); ++i) {
    const bool readable = watched[2 + i].revents != 0;
    if (readable ? Advance(*arrivals_[i]) : now < arrivals_[i]->deadline) std::swap(arrivals_[kept++], arrivals_[i]);
  }
  arrivals_.resize(kept);
  if (watched[0].revents != 0) KINORA_RETURN_IF_ERROR(Accept());
  return ready == 0 && now >= deadline ? absl::DeadlineExceededError("nobody came") : absl::OkStatus();
}

absl::Status PeerLinks::Accept() {
  FileDescriptor fd(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd.ok()) {  // while no descriptor is free, the next look would fail in the same way at once
    const bool full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    return full ? Failed("accept", "a rank") : absl::OkStatus();  // otherwise the peer has left
  }
  SetLimits(fd.get());
  auto arrival = std::make_unique<Arrival>();
  arrival->nonce = DrawBytes(kNonceBytes);
  arrival->deadline = Clock::Steady().Now() + kProofPatience;
  // The send buffer of a new connection has room for these few bytes.
  if (send(fd.get(), arrival->nonce.data(), kNonceBytes, MSG_NOSIGNAL) != static_cast<ssize_t>(kNonceBytes)) {
    return absl::OkStatus();
  }
  arrival->fd = std::move(fd);
  if (arrivals_.size() == kMaxArrivals) arrivals_.erase(arrivals_.begin());
  arrivals_.push_back(std::move(arrival));
  return absl::OkStatus();
}

bool PeerLinks::Advance(Arrival& arrival) {
  char bytes[kProofBytes];
  const ssize_t n = recv(arrival.fd.get(), bytes, kProofBytes - arrival.proof.size(), 0);
  if (n <= 0) return n < 0 && (errno == EAGAIN || errno == EINTR);
  arrival.proof.append(bytes, n);
  if (arrival.proof.size() < kProofBytes) return true;
  Claim claim;
  std::memcpy(&claim, arrival.proof.data(), sizeof claim);
  const std::string_view mac = std::string_view(arrival.proof).substr(sizeof claim);
  if (!SameMac(mac, Mac(options_.key, "dial", arrival.nonce, claim)) ||
      ntohl(claim.to) != static_cast<uint32_t>(rank_)) {
    return false;
  }
  const std::string answer = Mac(options_.key, "listen", arrival.nonce, claim);
  if (send(arrival.fd.get(), answer.data(), answer.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(answer.size())) {
    return false;
  }
  const std::string name(claim.name, strnlen(claim.name, kNameBytes));
  proven_.insert_or_assign({name, static_cast<int>(ntohl(claim.from))}, std::move(arrival.fd));
  return false;
}

}  // namespace kinora
