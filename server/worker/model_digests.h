// SHA-256 of everything that a model is made of, so that a clip's record says with which weights it was computed. Read
// on a thread of its own beside the load, which reads the same files: the page cache serves whichever comes second.
#ifndef KINORA_SERVER_WORKER_MODEL_DIGESTS_H_
#define KINORA_SERVER_WORKER_MODEL_DIGESTS_H_

#include <atomic>
#include <map>
#include <string>
#include <thread>

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

// "sha256:HEX" of a regular file. give_up: null, or from another thread: Cancelled.
absl::StatusOr<std::string> DigestOfFile(const std::string& path, const std::atomic<bool>* give_up);

// SHA-256, in hexadecimal digits, of what the files of a model look like from outside: their names, sizes and headers,
// the configuration and the tokenizer; not of the weights themselves. Of LoRAs of all their bytes, and their ids. Equal
// on ranks that loaded the same model.
absl::StatusOr<std::string> DigestOfHeaders(const ModelFiles& files);

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_MODEL_DIGESTS_H_
