#include "tests/testing/walled_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/str_cat.h"

namespace kinora {
namespace {

constexpr int64_t kReserved = int64_t{1} << 36;  // address space; pages are allocated when first written
constexpr int64_t kPage = 4096;

}  // namespace

absl::StatusOr<std::shared_ptr<WalledMemory>> WalledMemory::Create() {
  const int file = memfd_create("walled", MFD_CLOEXEC);
  const absl::Status none = absl::ResourceExhaustedError("cannot map the memory of a walled backend");
  if (file < 0) return none;
  void* closed = MAP_FAILED;
  void* open = MAP_FAILED;
  if (ftruncate(file, kReserved) == 0) {
    closed = mmap(nullptr, kReserved, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
    open = mmap(nullptr, kReserved, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  }
  if (closed != MAP_FAILED && open != MAP_FAILED) {
    return std::shared_ptr<WalledMemory>(new WalledMemory(file, static_cast<char*>(closed), static_cast<char*>(open)));
  }
  if (closed != MAP_FAILED) munmap(closed, kReserved);
  if (open != MAP_FAILED) munmap(open, kReserved);
  close(file);
  return none;
}

WalledMemory::~WalledMemory() {
  munmap(closed_, kReserved);
  munmap(open_, kReserved);
  close(file_);
}

absl::StatusOr<Buffer> WalledMemory::Allocate(int64_t bytes, std::string_view what) {
  const int64_t pages = (bytes + 64) / kPage + 1;  // a vector load of the last elements stays inside
  int64_t at;
  {
    const std::lock_guard lock(mu_);
    if (pages > (kReserved - used_) / kPage) {
      return absl::ResourceExhaustedError(
          absl::StrCat("cannot reserve ", bytes, " bytes of walled memory for ", std::string(what)));
    }
    at = used_;
    used_ += pages * kPage;
  }
  std::memset(open_ + at, 0xff, bytes);
  return Buffer(closed_ + at, bytes, [self = shared_from_this(), bytes](void* data) { self->Release(data, bytes); });
}

void WalledMemory::Release(void* closed, int64_t bytes) {
  const int64_t at = static_cast<char*>(closed) - closed_;
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, ((bytes + 64) / kPage + 1) * kPage);
}

char* WalledMemory::Open(const void* closed) const {
  if (closed == nullptr) return nullptr;
  const int64_t at = static_cast<const char*>(closed) - closed_;
  KINORA_CHECK(0 <= at && at < kReserved) << "an op or copy was given host memory for device memory";
  return open_ + at;
}

}  // namespace kinora
