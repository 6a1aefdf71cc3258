#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/base/uninterrupted.h"
#include "engine/weights/json_text.h"
#include "engine/weights/safetensors.h"

namespace kinora {
namespace {

absl::Status WriteAt(int fd, const std::string& path, int64_t position, const void* data, int64_t bytes) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const auto most = static_cast<size_t>(std::min<int64_t>(bytes, int64_t{1} << 30));
    const ssize_t put = Uninterrupted([&] { return ::pwrite(fd, from, most, position); });
    if (put < 0) {
      const std::string message = Cat(path, ": cannot write: ", std::strerror(errno));
      return errno == ENOSPC ? absl::ResourceExhaustedError(message) : absl::UnavailableError(message);
    }
    from += put;
    position += put;
    bytes -= put;
  }
  return absl::OkStatus();
}

}  // namespace

std::string SafetensorsHeaderBytes(const SafetensorsHeader& header) {
  nlohmann::json json = nlohmann::json::object();
  if (!header.metadata.empty()) json["__metadata__"] = header.metadata;
  for (const TensorInfo& info : header.tensors) {
    json[info.name] = {{"dtype", SafetensorsDTypeName(info.dtype)},
                       {"shape", std::vector<int64_t>(info.shape.dims().begin(), info.shape.dims().end())},
                       {"data_offsets", {info.offset, info.offset + info.bytes}}};
  }
  std::string bytes = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);  // instead of throwing
  bytes.resize((bytes.size() + 7) / 8 * 8, ' ');  // the data starts at a multiple of 8 bytes
  char length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<char>(bytes.size() >> (8 * i));  // little-endian
  return bytes.insert(0, length, sizeof(length));
}

SafetensorsWriter::~SafetensorsWriter() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(Cat(path_, ".partial").c_str());
}

void SafetensorsWriter::SetMetadata(std::string key, std::string value) {
  KINORA_CHECK(fd_ < 0) << "the header is written";
  metadata_[std::move(key)] = std::move(value);
}

void SafetensorsWriter::Declare(std::string name, DType dtype, const Shape& shape) {
  KINORA_CHECK(fd_ < 0) << "the header is written";
  KINORA_CHECK(by_name_.emplace(name, tensors_.size()).second) << name << " is declared twice";
  const int64_t offset = tensors_.empty() ? 0 : tensors_.back().info.offset + tensors_.back().info.bytes;
  const int64_t bytes = shape.elements() * DTypeSize(dtype);
  tensors_.push_back({{.name = std::move(name), .dtype = dtype, .shape = shape, .offset = offset, .bytes = bytes}});
}

absl::Status SafetensorsWriter::Open(const std::string& path) {
  SafetensorsHeader declared{.metadata = metadata_};
  for (const Pending& tensor : tensors_) declared.tensors.push_back(tensor.info);
  const std::string header = SafetensorsHeaderBytes(declared);
  path_ = path;
  const std::string partial = Cat(path, ".partial");
  fd_ = ::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) return absl::InvalidArgumentError(Cat(partial, ": cannot create: ", std::strerror(errno)));
  data_start_ = static_cast<int64_t>(header.size());
  return WriteAt(fd_, partial, 0, header.data(), data_start_);
}

absl::Status SafetensorsWriter::Append(std::string_view name, const void* data, int64_t bytes) {
  const auto it = by_name_.find(name);
  KINORA_CHECK(fd_ >= 0 && it != by_name_.end()) << "not open, or not declared: " << name;
  Pending& tensor = tensors_[it->second];
  if (bytes > tensor.info.bytes - tensor.written) {
    return absl::InvalidArgumentError(Cat(path_, ": tensor ", name, ": more than its ", tensor.info.bytes, " bytes"));
  }
  KINORA_RETURN_IF_ERROR(WriteAt(fd_, path_, data_start_ + tensor.info.offset + tensor.written, data, bytes));
  tensor.written += bytes;
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::Close() {
  KINORA_CHECK(fd_ >= 0) << "not open";
  for (const Pending& tensor : tensors_) {
    if (tensor.written != tensor.info.bytes) {
      return absl::FailedPreconditionError(Cat(path_, ": tensor ", tensor.info.name, ": ", tensor.written, " of ",
                                               tensor.info.bytes, " bytes were written"));
    }
  }
  const std::string partial = Cat(path_, ".partial");
  const int closed = ::close(fd_);
  fd_ = -1;
  if (closed != 0 || std::rename(partial.c_str(), path_.c_str()) != 0) {
    const std::string message = Cat(path_, ": cannot finish: ", std::strerror(errno));
    ::unlink(partial.c_str());
    return absl::UnavailableError(message);
  }
  return absl::OkStatus();
}

absl::Status WriteSafetensors(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
                              const std::map<std::string, std::string>& metadata) {
  SafetensorsWriter writer;
  for (const auto& [key, value] : metadata) writer.SetMetadata(key, value);
  for (const auto& [name, tensor] : tensors) {
    KINORA_CHECK(tensor.shape().rank() < 2 || tensor.elements() == 0 || tensor.contiguous()) << name;
    writer.Declare(name, tensor.dtype(), tensor.shape());
  }
  KINORA_RETURN_IF_ERROR(writer.Open(path));
  for (const auto& [name, tensor] : tensors) KINORA_RETURN_IF_ERROR(writer.Append(name, tensor.raw(), tensor.bytes()));
  return writer.Close();
}

}  // namespace kinora
