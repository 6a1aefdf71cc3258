#include "engine/tensor/buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kinora {

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      release_(std::exchange(other.release_, nullptr)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(release_, other.release_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ != nullptr && release_ != nullptr) release_(data_);
}

namespace {

// Allocations of at least this size are mapped from the kernel and returned to it when freed; the allocator would keep
// the holes that staged matrices leave between long-lived weights. Huge pages, where available, save page faults while
// loading and address translations later.
constexpr int64_t kMappedBytes = 1 << 20;
constexpr int64_t kAlignment = 64;

// Rounds up to whole cache lines and adds one, so that a vector load of the last elements stays in bounds.
int64_t Padded(int64_t bytes) { return (bytes / kAlignment + 2) * kAlignment; }

void* Map(int64_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  madvise(data, bytes, MADV_HUGEPAGE);  // advisory: the result is ignored
  return data;
}

}  // namespace

absl::StatusOr<Buffer> Buffer::Allocate(int64_t bytes, std::string_view what) {
  KINORA_CHECK(bytes >= 0) << bytes;
  constexpr int64_t kMaxBytes = int64_t{1} << 46;  // beyond any address space; keeps the rounding from overflowing
  void* data = nullptr;
  if (bytes >= kMappedBytes && bytes <= kMaxBytes) {
    data = Map(Padded(bytes));
  } else if (bytes < kMappedBytes) {
    data = std::aligned_alloc(kAlignment, Padded(bytes));
  }
  if (data == nullptr)
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot reserve ", bytes, " bytes of memory for ", std::string(what)));
  if (bytes < kMappedBytes) return Buffer(data, bytes, std::free);
  return Buffer(data, bytes, [bytes](void* mapped) { munmap(mapped, Padded(bytes)); });
}

Tensor Buffer::View(DType dtype, const Shape& shape) const {
  KINORA_CHECK(shape.elements() * DTypeSize(dtype) <= bytes_) << shape.ToString() << " in " << bytes_ << " bytes";
  return Tensor(dtype, shape, data_);
}

}  // namespace kinora
