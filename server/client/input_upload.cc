#include "server/client/input_upload.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "server/client/api_call.h"
#include "server/client/backoff.h"
#include "server/client/serving_wait.h"
#include "server/common/sha256.h"

namespace kinora {
namespace {

constexpr size_t kChunkBytes = 256 << 10;
constexpr int64_t kShownBytes = 64 << 20;  // interval of progress while a file is read

// Reads a file in pieces.
class FileToSend {
 public:
  explicit FileToSend(const std::string& path) : path_(path) {}

  // Sets the SHA-256 and length of the whole file in `header`. `on_part` gets the progress; an error that it returns
  // ends the reading. InvalidArgument: not a regular file, or empty. NotFound: unreadable.
  absl::Status Measure(absl::FunctionRef<absl::Status(int64_t read, int64_t bytes)> on_part,
                       v1::UploadInputRequest::Header* header) {
    std::error_code error;
    const std::filesystem::file_status status = std::filesystem::status(path_, error);
    if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {  // opening a FIFO would block
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ": is a folder, pipe or device, not a regular file; save the content to a file first"));
    }
    const auto size = static_cast<int64_t>(std::filesystem::file_size(path_, error));
    errno = 0;
    file_.open(path_, std::ios::binary);
    const int failure = errno;
    Sha256 sum;
    int64_t bytes = 0;
    for (std::string part; !(part = Next()).empty();) {
      sum.Update(part);
      bytes += std::ssize(part);
      absl::Status go_on = on_part(bytes, std::max(bytes, size));
      if (!go_on.ok()) return go_on;
    }
    if (!file_.is_open() || file_.bad())
      return absl::NotFoundError(absl::StrCat(path_, ": cannot be read", failure == 0 ? "" : ": ",
                                              failure == 0 ? "" : std::strerror(failure)));
    if (bytes == 0) return absl::InvalidArgumentError(absl::StrCat(path_, ": is empty"));
    header->set_sha256(sum.Hex());
    header->set_bytes(bytes);
    return absl::OkStatus();
  }
  void GoTo(int64_t offset) {
    file_.clear();
    file_.seekg(offset);
  }
  std::string Next() {  // empty at the end
    std::string part(kChunkBytes, '\0');
    file_.read(part.data(), static_cast<std::streamsize>(part.size()));
    part.resize(static_cast<size_t>(std::max<std::streamsize>(0, file_.gcount())));
    return part;
  }

 private:
  const std::string path_;
  std::ifstream file_;
};

// Shows progress in MiB as steps.
void Show(const char* doing, const std::string& name, int64_t sent, int64_t bytes, ProgressDisplay& display) {
  const auto mebibytes = [](int64_t n) { return static_cast<int>((n + (1 << 20) - 1) >> 20); };
  display.Show({.stage = absl::StrCat(doing, " ", name),
                .step = mebibytes(sent),
                .total_steps = mebibytes(bytes),
                .fraction = static_cast<double>(sent) / static_cast<double>(bytes)});
}

// Whether a retry may succeed.
bool MayGoOn(const grpc::Status& status) {
  return (IsUnreachable(status) && MayPass(status)) || status.error_code() == grpc::StatusCode::ABORTED;
}

// Makes one call that sends what the server lacks. `sent`: the offset that it reached.
grpc::Status Send(const Connection& connection, v1::UploadInputRequest::Header header, const std::string& name,
                  FileToSend& file, Halt& halt, ProgressDisplay& display, v1::Input* input, int64_t& sent) {
  v1::GetInputRequest asked;
  asked.set_sha256(header.sha256());
  v1::Input known;
  grpc::Status found = Call<v1::VideoGeneration>(connection, &v1::VideoGeneration::Stub::GetInput, asked, &known);
  if (!found.ok() && found.error_code() != grpc::StatusCode::NOT_FOUND) return found;
  const bool whole = !known.id().empty();
  if (found.ok() && !whole && known.bytes() == header.bytes()) header.set_offset(known.received());
  const auto stub = v1::VideoGeneration::NewStub(connection.channel());
  const auto context = connection.StreamContext();
  const Halt::Call call(halt, *context);
  const auto writer = stub->UploadInput(context.get(), input);
  v1::UploadInputRequest request;
  *request.mutable_header() = header;
  bool open = writer->Write(request);
  if (whole) {  // the header suffices
    writer->WritesDone();
    return writer->Finish();
  }
  file.GoTo(header.offset());
  sent = header.offset();
  while (open) {
    Show("upload", name, sent, header.bytes(), display);
    std::string part = file.Next();
    if (part.empty()) break;
    sent += std::ssize(part);
    request.set_data(std::move(part));
    open = writer->Write(request);
  }
  writer->WritesDone();
  return writer->Finish();
}

}  // namespace

grpc::Status UploadFile(const Connection& connection, const std::string& path, const UploadPatience& patience,
                        ProgressDisplay& display, v1::Input* input, absl::Status* local) {
  FileToSend file(path);
  v1::UploadInputRequest::Header header;
  const std::string name = path.substr(path.rfind('/') + 1);
  const auto on_part = [&](int64_t read, int64_t bytes) {
    if (read % kShownBytes == 0) Show("read", name, read, bytes, display);
    return patience.halt.raised() ? absl::CancelledError("left") : absl::OkStatus();
  };
  *local = file.Measure(on_part, &header);
  if (!local->ok()) {
    display.Clear();
    return grpc::Status::OK;
  }
  Backoff backoff(patience.reconnect, patience.halt);
  grpc::Status status;
  for (int64_t sent = 0, before = 0;; before = sent) {
    status = Send(connection, header, name, file, patience.halt, display, input, sent);
    if (status.ok() || !MayGoOn(status)) break;
    if (sent > before) backoff.Reset(Clock::Steady().Now());
    if (!backoff.Pause()) break;
    connection.ForgetFailures();
  }
  display.Clear();
  return status;
}

grpc::Status UploadMedia(const Connection& connection, const std::vector<LocalMedia>& media,
                         const UploadPatience& patience, ProgressDisplay& display,
                         std::vector<v1::CreateVideoRequest>& requests, absl::Status* local) {
  *local = absl::OkStatus();
  std::map<std::string, std::string> ids;  // by path
  for (const LocalMedia& one : media) {
    std::string& id = ids[one.path];
    if (id.empty()) {
      v1::Input input;
      grpc::Status status = UploadFile(connection, one.path, patience, display, &input, local);
      if (!status.ok() || !local->ok()) return status;
      id = input.id();
    }
    for (v1::CreateVideoRequest& request : requests) one.ref(*request.mutable_generation())->set_input_id(id);
  }
  return grpc::Status::OK;
}

}  // namespace kinora
