#include "tests/simt/nccl/segment.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>
#include <ctime>

namespace kinora::simt {
namespace {

constexpr uint64_t kMagic = 0x4b4e43434c53494d;
constexpr size_t kRing = size_t{256} << 10;
constexpr int kMeetings = 256;

struct Ring {
  std::atomic<uint64_t> written, read;
  char data[kRing];
};

struct Meeting {
  uint64_t key;  // 0: free
  uint32_t arrived, left;
  Segment::Brought brought[kMostRanks];
};

struct Rank {
  std::atomic<uint32_t> bell, sleepers;
  std::atomic<uint64_t> moves;
  std::atomic<uint32_t> hears, sends;
};

// Contents of a UniqueId.
struct Way {
  uint64_t magic;
  int process, file;
};

}  // namespace

struct Shared {
  std::atomic<uint64_t> magic;
  pthread_mutex_t mutex;  // guards the members up to `meetings`; robust: freed if its owner dies
  std::atomic<bool> broken;
  char why[1024];
  Meeting meetings[kMeetings];
  Rank ranks[kMostRanks];
  Ring rings[kMostRanks][kMostRanks];  // [from][to]
};

namespace {

class Lock {
 public:
  explicit Lock(Shared* shared) : shared_(shared) {
    if (pthread_mutex_lock(&shared->mutex) == EOWNERDEAD) pthread_mutex_consistent(&shared->mutex);
  }
  ~Lock() { pthread_mutex_unlock(&shared_->mutex); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  Shared* const shared_;
};

Shared* Map(int file) {
  void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<Shared*>(memory);
}

}  // namespace

std::shared_ptr<Segment> Segment::Make(nccl::UniqueId* id) {
  const int file = memfd_create("simulated nccl", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, sizeof(Shared)) != 0) return nullptr;
  Shared* const shared = Map(file);
  if (shared == nullptr) return nullptr;
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&shared->mutex, &attributes);
  shared->magic = kMagic;
  const Way way = {kMagic, getpid(), file};
  std::memset(id, 0, sizeof *id);
  std::memcpy(id, &way, sizeof way);
  return std::shared_ptr<Segment>(new Segment(shared, file));
}

std::shared_ptr<Segment> Segment::Open(const nccl::UniqueId& id, std::string* why) {
  Way way{};
  std::memcpy(&way, &id, sizeof way);
  if (way.magic != kMagic) {
    *why = "the id is none that ncclGetUniqueId gave";
    return nullptr;
  }
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", way.process, way.file);
  const int file = open(path, O_RDWR | O_CLOEXEC);
  Shared* const shared = file < 0 ? nullptr : Map(file);
  if (file >= 0) close(file);
  if (shared == nullptr || shared->magic != kMagic) {
    *why = "the process that made the id is gone";
    return nullptr;
  }
  return std::shared_ptr<Segment>(new Segment(shared, -1));
}

Segment::~Segment() {
  Close();
  munmap(shared_, sizeof(Shared));
}

void Segment::Close() {
  if (file_ >= 0) close(file_);
  file_ = -1;
}

bool Segment::Arrive(uint64_t key, int rank, int64_t first, int64_t second) {
  {
    const Lock lock(shared_);
    Meeting* const begin = shared_->meetings;
    Meeting* const end = begin + kMeetings;
    Meeting* m = std::find_if(begin, end, [&](const Meeting& each) { return each.key == key; });
    if (m == end) m = std::find_if(begin, end, [](const Meeting& each) { return each.key == 0; });
    if (m == end || (m->arrived >> rank & 1) != 0) return false;
    m->key = key;
    m->arrived |= 1u << rank;
    m->brought[rank] = {first, second};
  }
  Wake();
  return true;
}

bool Segment::Met(uint64_t key, int rank, int size, std::vector<Brought>* brought) {
  const Lock lock(shared_);
  const uint32_t all = (1u << size) - 1;
  for (Meeting& m : shared_->meetings) {
    if (m.key != key) continue;
    if (m.arrived != all) return false;
    brought->assign(m.brought, m.brought + size);
    m.left |= 1u << rank;
    if (m.left == all) m = Meeting{};
    return true;
  }
  return false;
}

size_t Segment::Write(int from, int to, const char* data, size_t bytes) {
  Ring& ring = shared_->rings[from][to];
  const uint64_t written = ring.written.load(std::memory_order_relaxed);
  const size_t some = std::min<size_t>(bytes, kRing - (written - ring.read.load(std::memory_order_acquire)));
  for (size_t done = 0; done < some;) {
    const size_t at = (written + done) % kRing, piece = std::min(some - done, kRing - at);
    std::memcpy(ring.data + at, data + done, piece);
    done += piece;
  }
  ring.written.store(written + some, std::memory_order_release);
  return some;
}

size_t Segment::Read(int from, int to, char* data, size_t bytes) {
  Ring& ring = shared_->rings[from][to];
  const uint64_t read = ring.read.load(std::memory_order_relaxed);
  const size_t some = std::min<size_t>(bytes, ring.written.load(std::memory_order_acquire) - read);
  for (size_t done = 0; done < some;) {
    const size_t at = (read + done) % kRing, piece = std::min(some - done, kRing - at);
    std::memcpy(data + done, ring.data + at, piece);
    done += piece;
  }
  ring.read.store(read + some, std::memory_order_release);
  return some;
}

void Segment::Waits(int rank, uint32_t to_hear_from, uint32_t to_be_read_by) {
  shared_->ranks[rank].hears = to_hear_from;
  shared_->ranks[rank].sends = to_be_read_by;
}

void Segment::Moves(int rank) { ++shared_->ranks[rank].moves; }

// If a rank waits to hear from another rank that waits too, and nothing is in transit, the other has already sent all
// it will. The values read are consistent if no rank made progress meanwhile.
std::string Segment::Circle(int rank) const {
  const auto moves = [this] {
    std::vector<uint64_t> all;
    for (const Rank& each : shared_->ranks) all.push_back(each.moves);
    return all;
  };
  const std::vector<uint64_t> before = moves();
  const auto stuck_on = [this](int waiting, int other) {
    const Rank &a = shared_->ranks[waiting], &b = shared_->ranks[other];
    const Ring& ring = shared_->rings[other][waiting];
    return (a.hears >> other & 1) != 0 && (b.hears != 0 || b.sends != 0) && (b.sends >> waiting & 1) == 0 &&
           ring.written == ring.read;
  };
  // Depth-first search: the first edge of each rank that leads back is enough.
  std::vector<int> path = {rank};
  std::vector<bool> seen(kMostRanks);
  const std::function<bool()> leads_back = [&] {
    for (int next = 0; next < kMostRanks; ++next) {
      if (!stuck_on(path.back(), next)) continue;
      if (next == rank) return true;
      if (seen[next]) continue;
      seen[next] = true;
      path.push_back(next);
      if (leads_back()) return true;
      path.pop_back();
    }
    return false;
  };
  if (!leads_back() || moves() != before) return "";
  std::string circle;
  for (int each : path) circle += std::to_string(each) + " -> ";
  return circle + std::to_string(rank);
}

void Segment::Wake() {
  for (Rank& rank : shared_->ranks) {
    ++rank.bell;
    if (rank.sleepers == 0) continue;
    syscall(SYS_futex, &rank.bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
}

uint32_t Segment::Bell(int rank) const { return shared_->ranks[rank].bell; }

void Segment::Sleep(int rank, uint32_t bell) {
  constexpr timespec kWhile = {0, 20'000'000};
  Rank& r = shared_->ranks[rank];
  ++r.sleepers;
  syscall(SYS_futex, &r.bell, FUTEX_WAIT, bell, &kWhile, nullptr, 0);
  --r.sleepers;
}

void Segment::Break(const std::string& why) {
  {
    const Lock lock(shared_);
    if (shared_->broken) return;
    std::snprintf(shared_->why, sizeof shared_->why, "%s", why.c_str());
    shared_->broken = true;
  }
  Wake();
}

std::string Segment::Broken() const { return shared_->broken ? shared_->why : ""; }

}  // namespace kinora::simt
