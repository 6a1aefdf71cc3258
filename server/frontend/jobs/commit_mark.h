// Keeps the number of a store's last commit in a small file beside the database. A store that is opened with fewer
// commits has lost some that were acknowledged. SQLite alone does not notice this: it takes a log that is damaged, cut
// or missing for one that ends earlier.
//
// The file is overwritten in place after the commit's fsync, without an fsync of its own, so it is never ahead of the
// store. It is exact after the process is killed. After a power cut it may name an older commit, by the time in which
// the kernel writes pages back (30 s by default), so a sound store is never rejected.
#ifndef KINORA_SERVER_FRONTEND_JOBS_COMMIT_MARK_H_
#define KINORA_SERVER_FRONTEND_JOBS_COMMIT_MARK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "engine/base/file_descriptor.h"

namespace kinora {

struct CommitMark {
  std::string store;   // 16 hexadecimal digits, random, drawn when the store was created or migrated
  int64_t number = 0;  // only grows
};

class CommitMarkFile {  // one thread at a time
 public:
  // `path` "": keeps nothing (a store in memory).
  explicit CommitMarkFile(std::string path) : path_(std::move(path)) {}

  // Returns nullopt if there is no file, or if its mark is invalid, which is logged.
  std::optional<CommitMark> Read() const;
  // On failure the mark stays older than the store; that is logged once until a write succeeds.
  void Write(const CommitMark& mark);

 private:
  std::string path_;
  FileDescriptor file_;
  bool failing_ = false;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_COMMIT_MARK_H_
