#include "server/frontend/jobs/commit_mark.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/logging.h"
#include "server/common/file_error.h"
#include "server/common/sha256.h"

namespace kinora {
namespace {

// "<store> <number, 19 digits> <first 16 digits of the SHA-256 of the preceding text>\n". The length is fixed, so that
// the mark is overwritten in place, and far below a sector, so that it is written completely or not at all.
constexpr size_t kStoreDigits = 16, kNumberDigits = 19, kSumDigits = 16;
constexpr size_t kBytes = kStoreDigits + 1 + kNumberDigits + 1 + kSumDigits + 1;

std::string ToText(const CommitMark& mark) {
  const std::string text = absl::StrFormat("%s %019d ", mark.store, mark.number);
  return absl::StrCat(text, Sha256Hex(text).substr(0, kSumDigits), "\n");
}

std::optional<CommitMark> FromText(const std::string& text) {
  CommitMark mark{.store = text.substr(0, kStoreDigits)};
  if (text.size() != kBytes || !absl::SimpleAtoi(text.substr(kStoreDigits + 1, kNumberDigits), &mark.number)) {
    return std::nullopt;
  }
  return ToText(mark) == text ? std::optional(mark) : std::nullopt;
}

}  // namespace

std::optional<CommitMark> CommitMarkFile::Read() const {
  if (path_.empty()) return std::nullopt;
  const FileDescriptor file(open(path_.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.ok() && errno == ENOENT) return std::nullopt;
  std::string text(kBytes + 1, '\0');
  const ssize_t n = file.ok() ? pread(file.get(), text.data(), text.size(), 0) : -1;
  text.resize(n < 0 ? 0 : n);
  std::optional<CommitMark> mark = FromText(text);
  if (!mark.has_value()) {
    Log(Severity::kWarning, "commit_mark_unreadable",
        {{"file", path_}, {"effect", "lost commits at the end of the store will not be detected"}});
  }
  return mark;
}

void CommitMarkFile::Write(const CommitMark& mark) {
  if (path_.empty()) return;
  if (!file_.ok()) {
    file_ = FileDescriptor(open(path_.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
    if (file_.ok()) (void)!ftruncate(file_.get(), kBytes);  // Read rejects any other length
  }
  const std::string text = ToText(mark);
  const bool written = file_.ok() && pwrite(file_.get(), text.data(), text.size(), 0) == std::ssize(text);
  if (!written && !failing_) {
    Log(Severity::kWarning, "commit_mark_not_written",
        {{"file", path_}, {"why", std::string(FileError(path_, "write").message())}});
  }
  failing_ = !written;
}

}  // namespace kinora
