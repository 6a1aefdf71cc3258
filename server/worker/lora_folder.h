// A folder of LoRAs (WorkerConfig.lora_folder), looked at again and again while the worker runs. FILE.safetensors is
// the LoRA FILE once it has stayed as it is from one look to the next and everything about it is right: a regular file,
// in the folder itself or linked to within it, whole, with modules, shapes and ranks of this model. What is wrong with
// a file is said once in the log, and again when the file is another; it is never listed.
#ifndef KINORA_SERVER_WORKER_LORA_FOLDER_H_
#define KINORA_SERVER_WORKER_LORA_FOLDER_H_

#include <sys/stat.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/weights/lora.h"

namespace kinora {

// Used by one thread at a time, but for GiveUp.
class LoraFolder {
 public:
  // Listed at once: more wait until others have gone. Each holds a descriptor, and is named to every client.
  static constexpr size_t kMostListed = 256;
  // Looked at, in the order in which the folder gives them.
  static constexpr size_t kMostFiles = 20'000;
  static constexpr int64_t kMostHeaderBytes = int64_t{2} << 20;
  static constexpr int64_t kMostBytes = int64_t{64} << 30;
  static constexpr size_t kMostWhyBytes = 500;  // of a refusal: it holds names that the file gives

  // As Lora::Open, for the model.
  using Open = std::function<absl::StatusOr<std::shared_ptr<const Lora>>(std::shared_ptr<const SafetensorsFile> file)>;
  // Called between the pieces of a file that is read; what it says, unless OK, ends the reading for this time.
  using GoOn = absl::FunctionRef<absl::Status()>;

  // taken: ids that are not the folder's to give.
  LoraFolder(std::string path, Open open, std::set<std::string> taken)
      : path_(std::move(path)), open_(std::move(open)), taken_(std::move(taken)) {}

  // NotFound or InvalidArgument naming lora_folder: no folder that can be read.
  static absl::Status Check(const std::string& path);

  // True: loras() are others than before. Reads the files that are new, each whole.
  bool Look();
  // The same step by step: Begin, then Next, which reads one file at most, until there are no more.
  bool Begin();
  bool more() const { return next_ < names_.size() && !give_up_; }
  bool Next(GoOn go_on);
  // At the file of one id, if there is one, and whatever step of a look is next.
  bool LookAt(const std::string& id, GoOn go_on);
  // Ends a look early, now and from now on. Any thread.
  void GiveUp() { give_up_ = true; }

  Loras loras() const;  // with their digests
  size_t listed() const { return listed_; }
  const std::map<std::string, std::string>& refused() const { return refused_; }  // by file name: why
  size_t awaited() const { return files_.size() - listed_ - refused_.size(); }

 private:
  struct Stamp {  // another one: other contents, or so it must be taken
    dev_t device = 0;
    ino_t inode = 0;
    off_t bytes = 0;
    int64_t modified = 0, changed = 0;  // nanoseconds
    bool operator==(const Stamp&) const = default;
  };
  struct File {
    Stamp stamp;
    std::shared_ptr<const Lora> lora{};  // null: not listed
    bool judged = false;
  };

  static Stamp StampOf(const struct stat& info);
  static Stamp StampOf(const std::string& path);
  std::set<std::string> Names();
  bool Forget(const std::set<std::string>& names);
  bool Consider(const std::string& name, GoOn go_on);
  absl::StatusOr<std::shared_ptr<const Lora>> Judge(const std::string& name, const Stamp& stamp, GoOn go_on);
  void End();
  absl::Status CheckId(const std::string& id) const;
  void SayRefused(const std::string& name);
  void SayWaiting(size_t waiting);

  const std::string path_;
  const Open open_;
  const std::set<std::string> taken_;
  std::map<std::string, File> files_;  // by name
  std::map<std::string, std::string> refused_;
  size_t listed_ = 0;
  std::vector<std::string> names_;  // of the present look
  size_t next_ = 0, wait_ = 0;      // of them: the next one, and how many had no place
  size_t said_ = 0;                 // refusals that this look has logged
  size_t waiting_ = 0;              // since there are too many; as the log was told
  bool unreadable_ = false;         // the log has been told
  std::atomic<bool> give_up_ = false;
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_LORA_FOLDER_H_
