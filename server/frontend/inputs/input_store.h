// Inputs: images, clips and sounds that clients upload for their jobs. Each is stored once, by what it holds: its key,
// and its id, is the sha256 of its bytes, and lies in the artifact store under "inputs/<sha256>". Until it is whole its
// bytes are a file of that name in a folder of their own; what came before a client, the frontend or the machine went
// away stays there, to be resumed. Records are in the job store: nothing is an input without one, so a process that is
// killed at any moment leaves an input whole, or as a part with all that was acknowledged. A machine that loses bytes
// of a part leaves one that turns out not to have its sha256.
//
// An input expires; not while a job that names it waits or runs.
//
// Thread-safe; no call blocks. `done` runs once, on a thread of the store's own, or at once where a field is wrong.
//
// Errors: InvalidArgument (BadRequest with the field), Aborted (somebody else uploads the same content just now;
// RetryInfo), ResourceExhausted (INPUT_QUOTA, DISK_FULL), NotFound, and those of JobStore and ArtifactStore.
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
#include "server/common/event_loop.h"
#include "server/common/input_refs.h"
#include "server/common/metrics.h"
#include "server/common/status_details.h"
#include "server/frontend/inputs/part_folder.h"
#include "server/frontend/jobs/job_store.h"

namespace kinora {

inline constexpr size_t kMostInputs = 65536;  // each takes some 300 bytes of memory, and a file
// Of a part, from its last data: it takes room that it may never fill.
inline constexpr absl::Duration kPartTtl = absl::Hours(1);
// What a request names is kept for so long, in which it becomes a job.
inline constexpr absl::Duration kNamedFor = absl::Minutes(10);

struct InputRules {
  int64_t max_bytes = 0;  // of one input
  int64_t quota = 0;      // of all, those that are not whole with all their bytes
  absl::Duration ttl;     // from the last upload
  absl::Duration sweep_interval = absl::Minutes(1);
  std::function<absl::Status(int64_t bytes)> check_disk;
};

class InputStore {
 public:
  // One input on its way, from Begin until it is destroyed: nobody else uploads the same content meanwhile. One call at
  // a time; its owner keeps it until the call's `done`, which may destroy it.
  class Upload {
   public:
    ~Upload() {
      store_.Post([&store = store_, sha256 = sha256_, left = bytes_ - received_] { store.Release(sha256, left); });
    }
    Upload(const Upload&) = delete;
    Upload& operator=(const Upload&) = delete;

    // InvalidArgument also as soon as the beginning shows that it is of no type that is taken, or not of the header's.
    void Append(std::string data, Finished done);
    // All bytes have come: durable, with its id, once `done` is told. InvalidArgument: bytes are missing (what came
    // stays), or have another sha256 (nothing stays).
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
    int64_t received_;        // of the loop, as what follows
    std::string media_type_;  // empty: too few bytes have come
  };
  struct Begun {
    v1::Input input;
    std::unique_ptr<Upload> upload;  // null: the input is stored already, and kept for another ttl
  };

  // Reads the records, and removes files without one. Blocks. folder: where parts lie; made if it is not there. Not
  // owned: all but rules; they outlive Stop and a Flush of `records` after it.
  static absl::StatusOr<std::unique_ptr<InputStore>> Open(JobStore& records, ArtifactStore& artifacts,
                                                          const std::string& artifact_directory,
                                                          const std::string& folder, Clock& clock,
                                                          FrontendMetrics& metrics, InputRules rules);
  ~InputStore() { Stop(); }
  void Stop() {
    disk_.Stop();
    loop_.Stop();
  }

  // header.offset: 0 begins anew; any other goes on there, with at least so many bytes stored.
  void Begin(const v1::UploadInputRequest::Header& header, Done<Begun> done);
  // A part has no id, and says how much of it is stored.
  void Find(const std::string& sha256, Done<v1::Input> done);
  // What a request that may become a job names: each is stored, whole and of a type for its use. InvalidArgument with
  // every field of which that is not so, "generation." in front.
  void Require(std::vector<InputRef> refs, Finished done);

 private:
  struct Entry {
    InputRecord record;                               // whole only once that is durable
    bool busy = false;                                // an upload is open, or it is being removed
    absl::Time stored_expiry = absl::InfinitePast();  // of a part, in the job store
    absl::Time named_until = absl::InfinitePast();
  };

  InputStore(JobStore& records, ArtifactStore& artifacts, std::string folder, Clock& clock, FrontendMetrics& metrics,
             InputRules rules);
  void Post(EventLoop::Task task) { loop_.Post(std::move(task)); }

  // The rest runs on the loop.
  void Start(const v1::UploadInputRequest::Header& header, Done<Begun> done);
  absl::Status CheckPart(const v1::UploadInputRequest::Header& header, const Entry* entry);
  absl::Status CheckRoom(const v1::UploadInputRequest::Header& header, int64_t taken_by_it);
  void Store(const InputRecord& record, Finished done);  // in the job store, then in entries_
  absl::Status Write(Upload& upload, const std::string& data);
  void KeepPart(Entry& part);
  absl::Status LookAtHead(Upload& upload);
  absl::Status CheckComplete(Upload& upload);
  // On disk_: what takes long.
  absl::StatusOr<InputRecord> Place(const InputRecord& part);
  void OnPlaced(const absl::StatusOr<InputRecord>& placed, const std::string& sha256, Done<v1::Input> done);
  void Discard(const std::string& sha256);  // what came is of no use: removed once its upload has gone
  void Release(const std::string& sha256, int64_t left);
  void Remove(const std::string& sha256);
  void Sweep();
  void RemoveUnused(const std::vector<std::string>& expired, const std::vector<UnfinishedJob>& jobs);
  void RestoreParts(const std::string& stored_folder);
  absl::Status CheckRef(const InputRef& ref, FieldViolations& violations);
  void Count();
  Entry* FindEntry(const std::string& sha256);
  absl::StatusOr<bool> IsWhole(const InputRecord& record);
  absl::Time PartExpiry() const;
  v1::Input ToInput(const InputRecord& record) const;

  JobStore& records_;
  ArtifactStore& artifacts_;
  const PartFolder parts_;
  FrontendMetrics& metrics_;
  const InputRules rules_;
  absl::flat_hash_map<std::string, Entry> entries_;  // by sha256
  int64_t taken_ = 0;                                // of the quota
  int64_t coming_ = 0;                               // that open uploads have still to write
  EventLoop loop_;                                   // its tasks use what stands above
  EventLoop disk_;                                   // hashes and syncs whole files
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_INPUTS_INPUT_STORE_H_
