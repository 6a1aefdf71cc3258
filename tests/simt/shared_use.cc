#include "tests/simt/shared_use.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

namespace kinora::simt {
namespace {

class FileLock {
 public:
  explicit FileLock(int file) : file_(file) {
    while (flock(file_, LOCK_EX) != 0) {
      if (errno != EINTR) abort();
    }
  }
  ~FileLock() { flock(file_, LOCK_UN); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  const int file_;
};

}  // namespace

SharedUse::SharedUse(const char* path) : file_(open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
  if (file_ < 0 || ftruncate(file_, sizeof(Slot) * kSlots) != 0) abort();
  void* const memory = mmap(nullptr, sizeof(Slot) * kSlots, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (memory == MAP_FAILED) abort();
  slots_ = static_cast<Slot*>(memory);
}

int64_t SharedUse::Sum() {
  int64_t sum = 0;
  for (int i = 0; i < kSlots; ++i) {
    Slot& slot = slots_[i];
    if (slot.pid != 0 && kill(slot.pid, 0) != 0 && errno == ESRCH) slot = {};
    sum += slot.bytes;
  }
  return sum;
}

SharedUse::Slot& SharedUse::Own() {
  Slot* free_slot = nullptr;
  for (int i = 0; i < kSlots; ++i) {
    if (slots_[i].pid == getpid()) return slots_[i];
    if (slots_[i].pid == 0) free_slot = &slots_[i];
  }
  if (free_slot == nullptr) abort();
  free_slot->pid = getpid();
  return *free_slot;
}

bool SharedUse::Take(int64_t bytes, int64_t total) {
  const FileLock lock(file_);
  if (Sum() + bytes > total && bytes > 0) return false;
  Own().bytes += bytes;
  return true;
}

int64_t SharedUse::Used() {
  const FileLock lock(file_);
  return Sum();
}

}  // namespace kinora::simt
