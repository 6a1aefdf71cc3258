#include "server/tools/input_upload.h"

#include <algorithm>
#include <fstream>
#include <map>

#include "absl/strings/str_cat.h"
#include "server/common/sha256.h"
#include "server/tools/api_call.h"
#include "server/tools/backoff.h"
#include "server/tools/serving_wait.h"

namespace kinora {
namespace {

constexpr size_t kChunkBytes = 256 << 10;

// A file, read in order, in pieces.
class FileToSend {
 public:
  explicit FileToSend(const std::string& path) : path_(path), file_(path, std::ios::binary) {}

  // The sum and length of all of it; then it is at its beginning.
  absl::Status Measure(v1::UploadInputRequest::Header* header) {
    Sha256 sum;
    int64_t bytes = 0;
    for (std::string part; !(part = Next()).empty(); bytes += std::ssize(part)) sum.Update(part);
    if (!file_.is_open() || file_.bad()) return absl::NotFoundError(absl::StrCat(path_, ": cannot be read"));
    if (bytes == 0) return absl::InvalidArgumentError(absl::StrCat(path_, ": is empty"));
    header->set_sha256(sum.Hex());
    header->set_bytes(bytes);
    return absl::OkStatus();
  }
  void GoTo(int64_t offset) {
    file_.clear();
    file_.seekg(offset);
  }
  std::string Next() {  // empty: the end
    std::string part(kChunkBytes, '\0');
    file_.read(part.data(), static_cast<std::streamsize>(part.size()));
    part.resize(static_cast<size_t>(std::max<std::streamsize>(0, file_.gcount())));
    return part;
  }

 private:
  const std::string path_;
  std::ifstream file_;
};

// Steps are MiB.
void Show(const std::string& name, int64_t sent, int64_t bytes, ProgressDisplay& display) {
  const auto mebibytes = [](int64_t n) { return static_cast<int>((n + (1 << 20) - 1) >> 20); };
  display.Show({.stage = absl::StrCat("upload ", name),
                .step = mebibytes(sent),
                .total_steps = mebibytes(bytes),
                .fraction = static_cast<double>(sent) / static_cast<double>(bytes)});
}

// Of one that ended otherwise, the next would end so as well.
bool MayGoOn(const grpc::Status& status) {
  return (IsUnreachable(status) && MayPass(status)) || status.error_code() == grpc::StatusCode::ABORTED;
}

// One call, from what the server has on; `sent`: how far it came.
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
  if (whole) {  // a header is all that it takes
    writer->WritesDone();
    return writer->Finish();
  }
  file.GoTo(header.offset());
  sent = header.offset();
  while (open) {
    Show(name, sent, header.bytes(), display);
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
  *local = file.Measure(&header);
  if (!local->ok()) return grpc::Status::OK;
  const std::string name = path.substr(path.rfind('/') + 1);
  Backoff backoff(patience.reconnect, patience.halt);
  grpc::Status status;
  for (int64_t sent = 0, before = 0;; before = sent) {
    status = Send(connection, header, name, file, patience.halt, display, input, sent);
    if (status.ok() || !MayGoOn(status)) break;
    if (sent > before) backoff.Reset(absl::Now());
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
