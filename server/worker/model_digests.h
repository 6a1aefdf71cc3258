// SHA-256 of all files of a model, so that a clip's record identifies the weights that it was computed with. A thread
// reads the files while the model loads from the same files; the page cache serves the second reader.
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
  ~ModelDigests();  // cancels reading
  ModelDigests(const ModelDigests&) = delete;
  ModelDigests& operator=(const ModelDigests&) = delete;

  // Waits for the digests. Keys: "lora/ID" for LoRAs; the file name for weight files and tokenizer.model, preceded by
  // as many of its folders as distinguish it from earlier files; "COMPONENT/config.json" for the config.json of a
  // diffusers folder or a text encoder. An error names the file. Call once.
  absl::StatusOr<Map> Wait();

 private:
  absl::StatusOr<Map> Read(const ModelFiles& files) const;
  absl::StatusOr<std::string> DigestOf(const std::string& path) const;

  std::atomic<bool> give_up_ = false;
  absl::StatusOr<Map> result_ = absl::UnknownError("not read");
  std::thread thread_;
};

// Returns "sha256:HEX" of a regular file, up to the length that it has when opened. go_on: called after each piece of a
// few MiB; an error from it ends the reading.
absl::StatusOr<std::string> DigestOfFile(const std::string& path, absl::FunctionRef<absl::Status()> go_on);
// DigestOfFile for an open file; `path` is for messages. Does not close `fd` or change its position.
absl::StatusOr<std::string> DigestOfOpenFile(const std::string& path, int fd, absl::FunctionRef<absl::Status()> go_on);

// Returns the SHA-256, in hexadecimal digits, of the names, sizes and headers of a model's files, the configuration,
// the tokenizer, and the ids and all bytes of LoRAs; not of the other weights. Equal on ranks that loaded the same
// model. loras: if not null, gets the digests of the LoRAs, as "lora/ID".
absl::StatusOr<std::string> DigestOfHeaders(const ModelFiles& files, ModelDigests::Map* loras = nullptr);

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_MODEL_DIGESTS_H_
