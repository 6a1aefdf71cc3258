// Reader and writer of safetensors files (https://github.com/huggingface/safetensors, "Format"): 8 bytes of header
// length, a JSON header {name: {dtype, shape, data_offsets}}, then the data, which the tensors cover without overlap or
// gap. Files are untrusted: nothing is mapped, no allocation relies on a size that a file merely claims, and every
// error names the file and, if there is one, the tensor.
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

// json: the header's text. data_bytes: the bytes after it in the file. Fails with InvalidArgument for invalid JSON,
// invalid structure, a repeated name, a dtype other than F32 F16 BF16 F8_E4M3 F8_E5M2 I64 I32 U8 I8 (read as
// U8) BOOL, more than 6 dimensions, size != shape × dtype, overlap, or a gap.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json, int64_t data_bytes);

// Returns what precedes the data in a file: the header's length and the header, padded to a multiple of 8 bytes.
// Writes replacement characters for text that is not UTF-8.
std::string SafetensorsHeaderBytes(const SafetensorsHeader& header);

// One open file. Reading is thread-safe.
class SafetensorsFile {
 public:
  // Fails with NotFound, Unavailable (may be temporary) or InvalidArgument, beginning with the path. Detects GGUF files
  // and rejects them.
  static absl::StatusOr<std::shared_ptr<const SafetensorsFile>> Open(const std::string& path);
  // Opens the file behind `fd`, even if another one is now at `path`. The caller keeps ownership of fd.
  static absl::StatusOr<std::shared_ptr<const SafetensorsFile>> Open(const std::string& path, int fd);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::string& path() const { return path_; }
  const std::vector<TensorInfo>& tensors() const { return index_->header.tensors; }
  const std::map<std::string, std::string>& metadata() const { return index_->header.metadata; }
  const TensorInfo* Find(std::string_view name) const;  // null if absent
  int64_t bytes() const { return stamp_.bytes; }        // the whole file

  // Returns a copy with the data in memory, independent of later changes to the file. Tensors of either are valid for
  // both. Fails with ResourceExhausted; as CheckUnchanged, after reading; with DataLoss; or with the failure of
  // on_piece, called after each 16 MiB.
  absl::StatusOr<std::shared_ptr<const SafetensorsFile>> Loaded(absl::FunctionRef<absl::Status()> on_piece) const;
  // Fails with FailedPrecondition, beginning with the path, if the file has been written to since it was opened. A file
  // that was removed or replaced is unchanged: it stays open.
  absl::Status CheckUnchanged() const;

  // Reads bytes [begin, begin + bytes) of the tensor's data. Fails with DataLoss, naming file and tensor, if they
  // cannot be read.
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
  const int fd_;  // -1: the file is in data_
  Stamp stamp_;
  int64_t data_start_ = 0;
  std::shared_ptr<const Index> index_ = std::make_shared<Index>();
  Buffer data_;  // the whole file
};

// Opens a file, or the shards of an .index.json. Shards are in the folder of the index; each must hold the tensors that
// weight_map assigns to it, and no others.
absl::StatusOr<std::vector<std::shared_ptr<const SafetensorsFile>>> OpenSafetensors(const std::string& path);

// Writes a file piece by piece: Declare everything, Open, Append each tensor's data, Close.
class SafetensorsWriter {
 public:
  SafetensorsWriter() = default;
  ~SafetensorsWriter();  // removes an unfinished file
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  void SetMetadata(std::string key, std::string value);
  void Declare(std::string name, DType dtype, const Shape& shape);  // CHECK-fails on a repeated name or after Open
  absl::Status Open(const std::string& path);                       // writes the header to `path`.partial
  // Writes the next `bytes` of `name`; tensors may be filled in any order. Fails with InvalidArgument beyond its size.
  absl::Status Append(std::string_view name, const void* data, int64_t bytes);
  // Renames the file to `path`. Fails with FailedPrecondition, naming the tensor, if one is incomplete.
  absl::Status Close();

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

// Writes whole, contiguous tensors in one call.
absl::Status WriteSafetensors(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
                              const std::map<std::string, std::string>& metadata = {});

// The format's names: "F32", "BF16", …
std::string_view SafetensorsDTypeName(DType dtype);

}  // namespace kinora

#endif  // KINORA_ENGINE_WEIGHTS_SAFETENSORS_H_
