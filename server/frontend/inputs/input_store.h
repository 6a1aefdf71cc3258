// Stores inputs: images, clips and sounds that clients upload for their jobs. An input's id is the SHA-256 of its
// content, so equal content is stored once, under "inputs/<sha256>" in the artifact store. Until it is complete it is a
// part (input_parts.h), and an upload that is interrupted by the client, the frontend or the machine can resume it. Its
// record is in InputRecords, and nothing is an input without one: if the process is killed at any moment, each input is
// either complete or a part with all acknowledged data. If the machine loses bytes of a part, its SHA-256 will not
// match in the end.
//
// An input expires, but not while a queued or running job uses it.
//
// Thread-safe; apart from Open and Stop no call blocks. `done` runs once, on a thread of the store, or at once if a
// field is invalid.
//
// Errors: InvalidArgument (BadRequest with the field), Aborted (another call is uploading the same content; RetryInfo),
// ResourceExhausted (INPUT_QUOTA, DISK_FULL), NotFound, and those of InputRecords, JobStore and ArtifactStore.
#ifndef KINORA_SERVER_FRONTEND_INPUTS_INPUT_STORE_H_
#define KINORA_SERVER_FRONTEND_INPUTS_INPUT_STORE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kinora/v1/video_generation.pb.h"
#include "server/common/artifact_store.h"
#include "server/common/log_limit.h"
#include "server/common/metrics.h"
#include "server/common/status_details.h"
#include "server/frontend/inputs/input_parts.h"
#include "server/frontend/inputs/input_records.h"
#include "server/frontend/inputs/input_rules.h"
#include "server/frontend/jobs/job_store.h"
#include "server/net/event_lanes.h"
#include "server/net/event_loop.h"
#include "server/request/input_refs.h"

namespace kinora {

class InputStore {
 public:
  // One upload, from Begin until destroyed. It excludes other uploads of the same content. One call at a time; the
  // owner must keep it until the call's `done`, which may destroy it.
  class Upload {
   public:
    ~Upload() {
      store_.Post([&store = store_, sha256 = sha256_, left = bytes_ - received_] { store.Release(sha256, left); });
    }
    Upload(const Upload&) = delete;
    Upload& operator=(const Upload&) = delete;

    // Fails with InvalidArgument as soon as the data shows a type that is not supported or differs from the header's.
    void Append(std::string data, Finished done);
    // All data has been appended. The input has its id and is durable when `done` runs. InvalidArgument: data is
    // missing (the part is kept), or its SHA-256 differs (nothing is kept).
    void Complete(Done<v1::Input> done);

   private:
    friend class InputStore;
    Upload(InputStore& store, const v1::UploadInputRequest::Header& header)
        : store_(store),
          sha256_(header.sha256()),
          asked_type_(header.media_type()),
          bytes_(header.bytes()),
          received_(header.offset()) {}

    InputStore& store_;
    const std::string sha256_, asked_type_;
    const int64_t bytes_;
    int64_t received_;        // this and media_type_: only on the loop
    std::string media_type_;  // empty until enough bytes have arrived
  };
  struct Begun {
    v1::Input input;
    std::unique_ptr<Upload> upload;  // null: the input is already stored; its ttl starts again
  };

  // Reads the records and removes files without one. Blocks. jobs: their inputs do not expire. parts: become artifacts
  // of `artifacts`. All reference arguments must outlive Stop and a Flush of `jobs` after it.
  static absl::StatusOr<std::unique_ptr<InputStore>> Open(InputRecords& records, JobStore& jobs,
                                                          ArtifactStore& artifacts, InputParts& parts, Clock& clock,
                                                          FrontendMetrics& metrics, InputRules rules);
  ~InputStore() { Stop(); }
  void Stop() {
    files_.Stop();
    disk_.Stop();
    loop_.Stop();
  }

  // header.offset: 0 starts over; otherwise the upload resumes there, and at least so many bytes must be stored.
  void Begin(const v1::UploadInputRequest::Header& header, Done<Begun> done);
  // For a part the result has no id, and `received` is the number of stored bytes.
  void Find(const std::string& sha256, Done<v1::Input> done);
  // Checks the inputs of a request that may become a job: each must be stored, complete and of a type for its use.
  // InvalidArgument lists every field that fails, prefixed with "generation.".
  void Require(std::vector<InputRef> refs, Finished done);

 private:
  struct Entry {
    InputRecord record;                               // media_type is set only once the record is durable
    bool busy = false;                                // being uploaded or removed
    bool leaving = false;                             // being removed
    absl::Time stored_expiry = absl::InfinitePast();  // for a part: expiry in the stored record
    absl::Time named_until = absl::InfinitePast();
    int64_t change = 0;                         // the last one here: what was read of shared records before is old
    absl::StatusOr<bool> file_is_there = true;  // of a complete input, with the right length, as Look found last
  };

  InputStore(InputRecords& records, JobStore& jobs, ArtifactStore& artifacts, InputParts& parts, Clock& clock,
             FrontendMetrics& metrics, InputRules rules);
  void Post(EventLoop::Task task) { loop_.Post(std::move(task)); }

  // The rest runs on the loop. Look calls `then` once it knows of each complete input whether its file is there, and,
  // if the records are shared, what other frontends have stored.
  // looked: whether these could be read; if not, only what is known here counts.
  using Looked = absl::AnyInvocable<void(const absl::Status& looked)>;
  void Look(const std::vector<std::string>& inputs, Looked then);
  void LookAtFiles(const std::vector<std::string>& inputs, EventLoop::Task then);
  // Takes over the records of other frontends. found: those of `asked` that there were when `changes_` was `as_of`.
  void Adopt(int64_t as_of, const std::vector<std::string>& asked, std::vector<InputRecord> found);
  void ExtendShared(Entry& entry);  // so that no frontend removes it while the request becomes a job
  void SetFile(const InputRecord& record, const absl::StatusOr<int64_t>& bytes);
  void FinishFind(const std::string& sha256, const absl::Status& looked, Done<v1::Input> done);
  void FinishRequire(const std::vector<InputRef>& refs, const absl::Status& looked, Finished done);
  void FinishRemove(const std::string& sha256, const absl::Status& status);
  void Start(const v1::UploadInputRequest::Header& header, Done<Begun> done);
  absl::Status CheckPart(const v1::UploadInputRequest::Header& header, const Entry* entry);
  absl::Status CheckRoom(const v1::UploadInputRequest::Header& header, int64_t taken_by_it);
  void Store(const InputRecord& record, Finished done);  // updates entries_ and the records
  absl::Status Write(Upload& upload, const std::string& data);
  void KeepPart(Entry& part);
  absl::Status LookAtHead(Upload& upload);
  absl::Status CheckComplete(Upload& upload);
  absl::StatusOr<InputRecord> Place(const InputRecord& part);  // runs on disk_, because it takes long
  void OnPlaced(const absl::StatusOr<InputRecord>& placed, const std::string& sha256, Done<v1::Input> done);
  void Discard(const std::string& sha256);  // marks invalid data for removal when its upload ends
  void Release(const std::string& sha256, int64_t left);
  void Remove(const std::string& sha256);
  void Sweep();  // first reads shared records again
  void RemoveExpired();
  void RemoveUnused(const std::vector<std::string>& expired, const std::vector<UnfinishedJob>& jobs);
  absl::Status CheckRef(const InputRef& ref, FieldViolations& violations);
  void Count();
  Entry* FindEntry(const std::string& sha256);
  static absl::StatusOr<bool> IsWhole(const Entry& entry);
  absl::Time PartExpiry() const;
  v1::Input ToInput(const InputRecord& record) const;

  InputRecords& records_;
  JobStore& jobs_;
  ArtifactStore& artifacts_;
  InputParts& parts_;
  FrontendMetrics& metrics_;
  const InputRules rules_;
  absl::flat_hash_map<std::string, Entry> entries_;  // by sha256
  int64_t taken_ = 0, coming_ = 0;                   // of the quota; bytes that open uploads have still to write
  int64_t changes_ = 0;                              // of entries
  LogLimit lost_;                                    // for the log lines about files that are missing or damaged
  EventLoop loop_;                                   // its tasks use the members above
  EventLanes disk_, files_;                          // store whole files; look for files and delete them
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_INPUTS_INPUT_STORE_H_
