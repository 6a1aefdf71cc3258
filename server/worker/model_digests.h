// SHA-256 of everything that a model is made of, so that a clip's record says with which weights it was computed. Read
// on a thread of its own beside the load, which reads the same files: the page cache serves whichever comes second.
#ifndef KINORA_SERVER_WORKER_MODEL_DIGESTS_H_
#define KINORA_SERVER_WORKER_MODEL_DIGESTS_H_

#include <atomic>
#include <map>
#include <string>
#include <thread>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/weights/checkpoint.h"

namespace kinora {

class ModelDigests {
 public:
  using Map = std::map<std::string, std::string>;  // file name -> "sha256:HEX"

  explicit ModelDigests(const ModelFiles& files);
  ~ModelDigests();  // gives up what is not read yet
  ModelDigests(const ModelDigests&) = delete;
  ModelDigests& operator=(const ModelDigests&) = delete;

  // Waits. LoRAs as "lora/ID". Weight files and tokenizer.model by their names, the second of a name with its folder's
  // in front, the third with as many folders as tell it apart; a diffusers folder's and a text encoder's config.json as
  // "COMPONENT/config.json". An error names the file. Call once.
  absl::StatusOr<Map> Wait();

 private:
  absl::StatusOr<Map> Read(const ModelFiles& files) const;
  absl::StatusOr<std::string> DigestOf(const std::string& path) const;

  std::atomic<bool> give_up_ = false;
  absl::StatusOr<Map> result_ = absl::UnknownError("not read");
  std::thread thread_;
};

// "sha256:HEX" of a regular file, as long as it is when it is opened. go_on: called after each piece of a few MiB; what
// it says, unless OK, ends the reading.
absl::StatusOr<std::string> DigestOfFile(const std::string& path, absl::FunctionRef<absl::Status()> go_on);
// Of what `fd` is open on; `path` is for messages. fd stays the caller's, with its position.
absl::StatusOr<std::string> DigestOfOpenFile(const std::string& path, int fd, absl::FunctionRef<absl::Status()> go_on);

// SHA-256, in hexadecimal digits, of what the files of a model look like from outside: their names, sizes and headers,
// the configuration and the tokenizer; not of the weights themselves. Of LoRAs of all their bytes, and their ids. Equal
// on ranks that loaded the same model. loras: null, or gets those of the LoRAs, as "lora/ID".
absl::StatusOr<std::string> DigestOfHeaders(const ModelFiles& files, ModelDigests::Map* loras = nullptr);

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_MODEL_DIGESTS_H_
