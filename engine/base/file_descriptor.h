// Owner of a file descriptor.
#ifndef KINORA_ENGINE_BASE_FILE_DESCRIPTOR_H_
#define KINORA_ENGINE_BASE_FILE_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace kinora {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }  // the caller closes it

 private:
  int fd_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_BASE_FILE_DESCRIPTOR_H_
