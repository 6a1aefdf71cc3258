#include "server/frontend/jobs/wal_frames.h"

#include <endian.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "engine/base/file_descriptor.h"
#include "engine/base/status_macros.h"
#include "server/common/file_error.h"

namespace kinora {
namespace {

constexpr size_t kHeaderBytes = 32, kFrameHeaderBytes = 24;
constexpr uint32_t kMagic = 0x377f0682;  // kMagic + 1: checksums use big-endian words

uint32_t BigEndianAt(std::string_view bytes, size_t at) {
  uint32_t word;
  std::memcpy(&word, bytes.data() + at, sizeof(word));
  return be32toh(word);
}

struct Checksum {
  uint32_t a = 0, b = 0;
  bool operator==(const Checksum&) const = default;

  // Fibonacci-weighted sums of the words of `bytes`, whose length is a multiple of 8.
  Checksum Then(std::string_view bytes, bool big_endian) const {
    Checksum sum = *this;
    for (size_t at = 0; at < bytes.size(); at += 8) {
      const uint32_t first = BigEndianAt(bytes, at), second = BigEndianAt(bytes, at + 4);
      sum.a += (big_endian ? first : __builtin_bswap32(first)) + sum.b;
      sum.b += (big_endian ? second : __builtin_bswap32(second)) + sum.a;
    }
    return sum;
  }
};

Checksum ChecksumAt(std::string_view bytes, size_t at) { return {BigEndianAt(bytes, at), BigEndianAt(bytes, at + 4)}; }

struct Header {
  bool sound = false;
  bool big_endian = false;
  size_t page_bytes = 0;
  std::string salts;
  Checksum checksum;
};

Header ReadHeader(std::string_view bytes) {
  constexpr size_t kUsualPage = 4096;
  Header header{.big_endian = BigEndianAt(bytes, 0) == kMagic + 1, .page_bytes = BigEndianAt(bytes, 8)};
  header.checksum = ChecksumAt(bytes, 24);
  header.salts = bytes.substr(16, 8);
  header.sound = (BigEndianAt(bytes, 0) | 1) == kMagic + 1 &&
                 Checksum().Then(bytes.substr(0, 24), header.big_endian) == header.checksum;
  if (!header.sound) header.page_bytes = kUsualPage;
  return header;
}

// Checks the frames in order as SQLite does, and continues after the first bad one.
class Walk {
 public:
  explicit Walk(const Header& header)
      : header_(header), salts_(header.salts), before_(header.checksum), broken_(!header.sound) {}

  void Frame(std::string_view frame) {
    if (!header_.sound && first_) salts_ = frame.substr(8, 8);  // the header's salts may be damaged
    first_ = false;
    const Checksum stored = ChecksumAt(frame, 16);
    const Checksum computed =
        before_.Then(frame.substr(0, 8), header_.big_endian).Then(frame.substr(kFrameHeaderBytes), header_.big_endian);
    const bool ours = frame.substr(8, 8) == salts_, commits = ours && BigEndianAt(frame, 4) != 0;
    const bool sound = ours && computed == stored;
    before_ = stored;
    if (!broken_ && sound) return;
    broken_ = true;
    whole_ = whole_ && sound;
    if (!commits) return;
    ++commits_;
    if (whole_) lost_ = commits_;
    whole_ = true;  // for the next transaction, until a bad frame
  }

  int64_t lost() const { return lost_; }

 private:
  const Header header_;
  std::string salts_;
  Checksum before_;  // stored in the previous frame
  bool first_ = true;
  bool broken_;          // there was a bad frame
  bool whole_ = false;   // the present transaction is sound, and after that of the first bad frame
  int64_t commits_ = 0;  // from the first bad frame on
  int64_t lost_ = 0;
};

absl::StatusOr<std::string> ReadAt(int fd, const std::string& path, int64_t at, size_t bytes) {
  std::string out(bytes, '\0');
  size_t done = 0;
  while (done < bytes) {
    const ssize_t n = pread(fd, out.data() + done, bytes - done, at + static_cast<int64_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError(path, "read");
    if (n == 0) break;
    done += n;
  }
  out.resize(done);
  return out;
}

}  // namespace

absl::StatusOr<int64_t> CountUnrecoverableCommits(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!file.ok()) return errno == ENOENT ? absl::StatusOr<int64_t>(0) : FileError(path, "open");
  KINORA_ASSIGN_OR_RETURN(const std::string head, ReadAt(file.get(), path, 0, kHeaderBytes));
  if (head.size() < kHeaderBytes) return 0;
  const Header header = ReadHeader(head);
  Walk walk(header);
  const size_t frame_bytes = kFrameHeaderBytes + header.page_bytes;
  for (int64_t at = kHeaderBytes;; at += static_cast<int64_t>(frame_bytes)) {
    KINORA_ASSIGN_OR_RETURN(const std::string frame, ReadAt(file.get(), path, at, frame_bytes));
    if (frame.size() < frame_bytes) return walk.lost();
    walk.Frame(frame);
  }
}

}  // namespace kinora
