// The bytes of incomplete inputs (parts), each named by the expected SHA-256. They outlive the process, so that an
// upload can be resumed, and become artifacts when they are complete. All calls block on the disk.
//
// Errors: ResourceExhausted (DISK_FULL), and those of ArtifactStore.
#ifndef KINORA_SERVER_FRONTEND_INPUTS_INPUT_PARTS_H_
#define KINORA_SERVER_FRONTEND_INPUTS_INPUT_PARTS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/common/artifact_store.h"
#include "server/frontend/inputs/input_records.h"

namespace kinora {

bool IsSha256(const std::string& text);  // 64 lowercase hexadecimal digits

class InputParts {
 public:
  virtual ~InputParts() = default;

  // Begins the part if there is none, and truncates or extends it to `bytes` bytes.
  virtual absl::Status Begin(const std::string& sha256, int64_t bytes) = 0;
  // Writes `data` at `at` and advances `at` by the bytes written, even on failure.
  virtual absl::Status Write(const std::string& sha256, std::string_view data, int64_t& at) = 0;
  virtual absl::StatusOr<std::string> Head(const std::string& sha256) = 0;  // the first kMediaHead bytes, or fewer
  virtual int64_t Bytes(const std::string& sha256) const = 0;               // 0: there is no part
  virtual void Remove(const std::string& sha256) = 0;
  // Stores the part's bytes under `key`, as StagedArtifact::Commit, unless their SHA-256 is another one: then nothing
  // has the key. Returns the bytes' own SHA-256. Thread-safe with calls about other parts. The part may be gone
  // afterwards.
  virtual absl::StatusOr<StoredFile> Commit(const std::string& sha256, const std::string& key) = 0;
  // Call before other calls. Makes parts and stored inputs agree with the records after a crash: an input that Commit
  // stored, but whose record is incomplete, can be completed; parts and inputs without a record are removed. Returns
  // the number of those.
  virtual int64_t Reconcile(const std::vector<InputRecord>& records) = 0;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_INPUTS_INPUT_PARTS_H_
