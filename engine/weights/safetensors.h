// Reader and writer of safetensors files (https://github.com/huggingface/safetensors, "Format"): 8 bytes of header
// length, a JSON header {name: {dtype, shape, data_offsets}}, then the data, which the tensors cover without overlap or
// gap. Files are foreign: nothing is mapped, nothing is allocated by a size the file merely claims, and each error
// names the file and, where there is one, the tensor.
#ifndef KINORA_ENGINE_WEIGHTS_SAFETENSORS_H_
#define KINORA_ENGINE_WEIGHTS_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/tensor/buffer.h"
#include "engine/tensor/tensor.h"

namespace kinora {

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape{};
  int64_t offset = 0;  // bytes from the start of the data
  int64_t bytes = 0;
};

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors{};              // by offset
  std::map<std::string, std::string> metadata{};  // "__metadata__"
};

// json: the header's text; data_bytes: what follows it in the file. InvalidArgument: not JSON, wrong structure, a name
// twice, a dtype other than F32 F16 BF16 F8_E4M3 F8_E5M2 I64 I32 U8 BOOL, more than 6 dimensions, size != shape ×
// dtype, overlap, gap.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json, int64_t data_bytes);

// One open file. Reading is thread-safe.
class SafetensorsFile {
 public:
  // NotFound, or InvalidArgument beginning with the path. GGUF files are recognised and refused.
  static absl::StatusOr<std::shared_ptr<const SafetensorsFile>> Open(const std::string& path);
  // What `fd` is open on, whatever lies at `path` by now; fd stays the caller's.
  static absl::StatusOr<std::shared_ptr<const SafetensorsFile>> Open(const std::string& path, int fd);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::string& path() const { return path_; }
  const std::vector<TensorInfo>& tensors() const { return index_->header.tensors; }
  const std::map<std::string, std::string>& metadata() const { return index_->header.metadata; }
  const TensorInfo* Find(std::string_view name) const;  // null if absent
  int64_t bytes() const { return stamp_.bytes; }        // of the whole file

  // The same, with its data in memory: whatever becomes of the file, it gives what was in it. Tensors of the one are
  // those of the other. ResourceExhausted; as CheckUnchanged, once it is read; DataLoss; or what on_piece, called after
  // each 16 MiB, says.
  absl::StatusOr<std::shared_ptr<const SafetensorsFile>> Loaded(absl::FunctionRef<absl::Status()> on_piece) const;
  // FailedPrecondition, beginning with the path, if the file has been written to since it was opened. One that was
  // taken away or replaced by another is still itself.
  absl::Status CheckUnchanged() const;

  // Bytes [begin, begin + bytes) of the tensor's data. DataLoss, naming file and tensor, if the file cannot deliver
  // them.
  absl::Status Read(const TensorInfo& tensor, int64_t begin, int64_t bytes, void* out) const;

 private:
  struct Stamp {
    int64_t bytes = 0, modified = 0;  // nanoseconds
    bool operator==(const Stamp&) const = default;
  };
  struct Index {
    SafetensorsHeader header{};
    std::unordered_map<std::string_view, const TensorInfo*> by_name{};
  };
  SafetensorsFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  absl::Status ReadHeader();
  absl::Status ReadAt(int64_t position, int64_t bytes, void* out) const;

  const std::string path_;
  const int fd_;  // -1: it is in data_
  Stamp stamp_;
  int64_t data_start_ = 0;
  std::shared_ptr<const Index> index_ = std::make_shared<Index>();
  Buffer data_;  // the whole file
};

// A file, or the shards of an .index.json: every name of its weight_map must be in the shard it names, shards lie
// beside the index, and no shard holds a tensor that the map lacks.
absl::StatusOr<std::vector<std::shared_ptr<const SafetensorsFile>>> OpenSafetensors(const std::string& path);

// Writes a file piece by piece: Declare everything, Open, Append each tensor's data, Close.
class SafetensorsWriter {
 public:
  SafetensorsWriter() = default;
  ~SafetensorsWriter();  // an unfinished file is removed
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  void SetMetadata(std::string key, std::string value);
  void Declare(std::string name, DType dtype, const Shape& shape);  // CHECK-fails on a name twice or after Open
  absl::Status Open(const std::string& path);                       // writes the header to `path`.partial
  // The next `bytes` of `name`; tensors may be filled in any order. InvalidArgument beyond its size.
  absl::Status Append(std::string_view name, const void* data, int64_t bytes);
  absl::Status Close();  // FailedPrecondition naming a tensor that is not complete; else renames to `path`

 private:
  struct Pending {
    TensorInfo info;
    int64_t written = 0;
  };
  std::vector<Pending> tensors_;
  std::map<std::string, size_t, std::less<>> by_name_;
  std::map<std::string, std::string> metadata_;
  std::string path_;
  int fd_ = -1;
  int64_t data_start_ = 0;
};

// Whole tensors, contiguous, in one call.
absl::Status WriteSafetensors(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
                              const std::map<std::string, std::string>& metadata = {});

// "F32", "BF16", …: the format's names.
std::string_view SafetensorsDTypeName(DType dtype);

}  // namespace kinora

#endif  // KINORA_ENGINE_WEIGHTS_SAFETENSORS_H_
