// A folder of LoRAs (WorkerConfig.lora_folder), scanned repeatedly while the worker runs. FILE.safetensors is listed as
// the LoRA FILE once it is unchanged from one scan to the next and is valid: a complete regular file, in the folder or
// linked to within it, whose modules, shapes and ranks fit the model. An invalid file is never listed; the reason is
// logged once, and again after the file has changed.
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

// One thread at a time, except for GiveUp.
class LoraFolder {
 public:
  // Files listed at once; more files wait until others are removed. Each holds a descriptor and is reported to every
  // client.
  static constexpr size_t kMostListed = 256;
  // Files considered per scan, in directory order.
  static constexpr size_t kMostFiles = 20'000;
  static constexpr int64_t kMostHeaderBytes = int64_t{2} << 20;
  static constexpr int64_t kMostBytes = int64_t{64} << 30;
  static constexpr size_t kMostWhyBytes = 500;  // of the reason for a rejection, which quotes names from the file

  // Lora::Open for the model.
  using Open = std::function<absl::StatusOr<std::shared_ptr<const Lora>>(std::shared_ptr<const SafetensorsFile> file)>;
  // Called between the pieces of a file that is being read. An error from it ends the reading until the next scan.
  using GoOn = absl::FunctionRef<absl::Status()>;

  // taken: ids that files of the folder must not have.
  LoraFolder(std::string path, Open open, std::set<std::string> taken)
      : path_(std::move(path)), open_(std::move(open)), taken_(std::move(taken)) {}

  // Fails with NotFound or InvalidArgument naming lora_folder if there is no readable folder at `path`.
  static absl::Status Check(const std::string& path);

  // Scans the folder once and reads every new file completely. Returns whether loras() has changed.
  bool Look();
  // The steps of a scan, for a caller that does other work between them: Begin, then Next while more(). Next reads at
  // most one file. Both return whether loras() has changed.
  bool Begin();
  bool more() const { return next_ < names_.size() && !give_up_; }
  bool Next(GoOn go_on);
  // Considers the file of one id, if it exists, at any time between two steps of a scan. Returns whether loras() has
  // changed.
  bool LookAt(const std::string& id, GoOn go_on);
  // Ends the present and every later scan early. Any thread.
  void GiveUp() { give_up_ = true; }

  Loras loras() const;  // with their digests
  size_t listed() const { return listed_; }
  const std::map<std::string, std::string>& refused() const { return refused_; }  // reasons by file name
  size_t awaited() const { return files_.size() - listed_ - refused_.size(); }

 private:
  struct Stamp {  // a file whose stamp differs is taken to have other contents
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
  absl::StatusOr<std::shared_ptr<const Lora>> Validate(const std::string& name, const Stamp& stamp, GoOn go_on);
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
  std::vector<std::string> names_;  // of the present scan
  size_t next_ = 0, wait_ = 0;      // index of the next name, and how many files were beyond kMostListed
  size_t said_ = 0;                 // files that this scan has rejected
  size_t waiting_ = 0;              // wait_ of the last complete scan, which is logged when it changes
  bool unreadable_ = false;         // whether the last scan could not read the folder, which is logged once
  std::atomic<bool> give_up_ = false;
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_LORA_FOLDER_H_
