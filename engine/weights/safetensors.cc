#include "engine/weights/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>

#include "absl/strings/match.h"
#include "engine/base/file_descriptor.h"
#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/base/uninterrupted.h"
#include "engine/weights/json_text.h"

namespace kinora {
namespace {

constexpr int64_t kMaxHeaderBytes = 100'000'000;  // the limit of the format
constexpr int64_t kLengthBytes = 8;

int64_t Nanoseconds(const timespec& time) { return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec; }

absl::Status ErrnoError(std::string_view path, std::string_view what) {
  const std::string message = Cat(path, ": ", what, ": ", std::strerror(errno));
  switch (errno) {
    case ENOENT:
      return absl::NotFoundError(message);
    case EIO:
    case ESTALE:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return absl::UnavailableError(message);  // may be temporary
    default:
      return absl::InvalidArgumentError(message);
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<const SafetensorsFile>> SafetensorsFile::Open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // so that a named pipe does not block
  if (fd < 0) return ErrnoError(path, "cannot open");
  const FileDescriptor owned(fd);
  return Open(path, fd);
}

absl::StatusOr<std::shared_ptr<const SafetensorsFile>> SafetensorsFile::Open(const std::string& path, int fd) {
  const int own = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return ErrnoError(path, "cannot open");
  std::shared_ptr<SafetensorsFile> file(new SafetensorsFile(path, own));
  if (absl::Status status = file->ReadHeader(); !status.ok()) {
    return absl::Status(status.code(), Cat(path, ": ", status.message()));
  }
  return file;
}

SafetensorsFile::~SafetensorsFile() {
  if (fd_ >= 0) ::close(fd_);
}

absl::Status SafetensorsFile::CheckUnchanged() const {
  struct stat info {};
  if (fd_ < 0) return absl::OkStatus();
  if (::fstat(fd_, &info) != 0) return absl::DataLossError(Cat(path_, ": ", std::strerror(errno)));
  if (stamp_ == Stamp{.bytes = info.st_size, .modified = Nanoseconds(info.st_mtim)}) return absl::OkStatus();
  return absl::FailedPreconditionError(Cat(path_, ": has been written to since it was opened"));
}

absl::StatusOr<std::shared_ptr<const SafetensorsFile>> SafetensorsFile::Loaded(
    absl::FunctionRef<absl::Status()> on_piece) const {
  constexpr int64_t kPiece = int64_t{16} << 20;
  std::shared_ptr<SafetensorsFile> loaded(new SafetensorsFile(path_, -1));
  KINORA_ASSIGN_OR_RETURN(loaded->data_, Buffer::Allocate(bytes(), Cat("the LoRA ", path_)));
  for (int64_t done = 0; done < bytes(); done += kPiece) {
    char* const to = static_cast<char*>(loaded->data_.data()) + done;
    if (const absl::Status status = ReadAt(done, std::min(kPiece, bytes() - done), to); !status.ok()) {
      return absl::Status(status.code(), Cat(path_, ": ", status.message()));
    }
    KINORA_RETURN_IF_ERROR(on_piece());
  }
  KINORA_RETURN_IF_ERROR(CheckUnchanged());
  loaded->stamp_ = stamp_;
  loaded->data_start_ = data_start_;
  loaded->index_ = index_;
  return loaded;
}

absl::Status SafetensorsFile::ReadHeader() {
  struct stat info;
  if (::fstat(fd_, &info) != 0) return absl::InvalidArgumentError(std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError("not a regular file");
  const int64_t size = info.st_size;
  stamp_ = {.bytes = size, .modified = Nanoseconds(info.st_mtim)};
  if (size < kLengthBytes) return absl::InvalidArgumentError(Cat("not a safetensors file: ", size, " bytes"));
  char start[kLengthBytes];
  KINORA_RETURN_IF_ERROR(ReadAt(0, kLengthBytes, start));
  if (std::memcmp(start, "GGUF", 4) == 0) {
    return absl::InvalidArgumentError("a GGUF file; GGUF is not supported, use the safetensors file of the model");
  }
  uint64_t length = 0;
  for (int i = kLengthBytes - 1; i >= 0; --i) length = length << 8 | static_cast<uint8_t>(start[i]);  // little-endian
  if (length > static_cast<uint64_t>(kMaxHeaderBytes)) {
    return absl::InvalidArgumentError(Cat("header of ", length, " bytes, at most ", kMaxHeaderBytes));
  }
  if (static_cast<int64_t>(length) > size - kLengthBytes) {
    return absl::InvalidArgumentError(Cat("truncated: header of ", length, " bytes in a file of ", size));
  }
  std::string json(length, '\0');
  KINORA_RETURN_IF_ERROR(ReadAt(kLengthBytes, static_cast<int64_t>(length), json.data()));
  data_start_ = kLengthBytes + static_cast<int64_t>(length);
  auto index = std::make_shared<Index>();
  KINORA_ASSIGN_OR_RETURN(index->header, ParseSafetensorsHeader(json, size - data_start_));
  index->by_name.reserve(index->header.tensors.size());
  for (const TensorInfo& tensor : index->header.tensors) index->by_name[tensor.name] = &tensor;
  index_ = std::move(index);
  return absl::OkStatus();
}

const TensorInfo* SafetensorsFile::Find(std::string_view name) const {
  const auto it = index_->by_name.find(name);
  return it == index_->by_name.end() ? nullptr : it->second;
}

absl::Status SafetensorsFile::ReadAt(int64_t position, int64_t bytes, void* out) const {
  auto* to = static_cast<char*>(out);
  if (fd_ < 0) {
    std::memcpy(to, static_cast<const char*>(data_.data()) + position, bytes);
    return absl::OkStatus();
  }
  while (bytes > 0) {
    const auto most = static_cast<size_t>(std::min<int64_t>(bytes, int64_t{1} << 30));
    const ssize_t got = Uninterrupted([&] { return ::pread(fd_, to, most, position); });
    if (got < 0) return absl::DataLossError(Cat("read failed: ", std::strerror(errno)));
    if (got == 0) return absl::DataLossError(Cat("file ended ", bytes, " bytes early"));
    to += got;
    position += got;
    bytes -= got;
  }
  return absl::OkStatus();
}

absl::Status SafetensorsFile::Read(const TensorInfo& tensor, int64_t begin, int64_t bytes, void* out) const {
  KINORA_CHECK(begin >= 0 && bytes >= 0 && begin + bytes <= tensor.bytes) << tensor.name;
  absl::Status status = ReadAt(data_start_ + tensor.offset + begin, bytes, out);
  if (status.ok()) return status;
  return absl::DataLossError(Cat(path_, ": tensor ", tensor.name, ": ", status.message()));
}

namespace {

using Files = std::vector<std::shared_ptr<const SafetensorsFile>>;

// Returns the weight_map of an index: tensor -> name of a file in the same folder.
absl::StatusOr<std::map<std::string, std::string>> ReadIndex(const std::string& path) {
  KINORA_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  KINORA_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJsonText(text, path));
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object() ||
      json["weight_map"].empty()) {
    return absl::InvalidArgumentError(Cat(path, ": weight_map is missing, empty or not an object"));
  }
  std::map<std::string, std::string> shards;
  for (const auto& [name, shard] : json["weight_map"].items()) {
    if (!shard.is_string()) return absl::InvalidArgumentError(Cat(path, ": weight_map.", name, ": not a string"));
    const std::string& file = shard.get_ref<const std::string&>();
    if (file.empty() || file.front() == '.' || absl::StrContains(file, '/') || absl::StrContains(file, '\0')) {
      return absl::InvalidArgumentError(Cat(path, ": weight_map.", name, ": not a plain file name: ", file));
    }
    shards[name] = file;
  }
  return shards;
}

absl::StatusOr<Files> OpenShards(const std::string& path) {
  KINORA_ASSIGN_OR_RETURN(const auto weight_map, ReadIndex(path));
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::map<std::string, std::shared_ptr<const SafetensorsFile>> open;
  for (const auto& [name, shard] : weight_map) {
    auto& file = open[shard];
    if (file == nullptr) {
      KINORA_ASSIGN_OR_RETURN(file, SafetensorsFile::Open((folder / shard).string()));
    }
    if (file->Find(name) == nullptr) {
      return absl::InvalidArgumentError(Cat(file->path(), ": tensor ", name, " is missing; ", path, " puts it there"));
    }
  }
  Files files;
  for (const auto& [shard, file] : open) {
    for (const TensorInfo& tensor : file->tensors()) {
      const auto it = weight_map.find(tensor.name);
      if (it == weight_map.end() || it->second != shard) {
        return absl::InvalidArgumentError(Cat(file->path(), ": tensor ", tensor.name, " is not in ", path));
      }
    }
    files.push_back(file);
  }
  return files;
}

}  // namespace

absl::StatusOr<Files> OpenSafetensors(const std::string& path) {
  if (absl::EndsWith(path, ".json")) return OpenShards(path);
  KINORA_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open(path));
  return Files{std::move(file)};
}

}  // namespace kinora
