// GET /v1/videos/{id}/content: an artifact, streamed from the frontend as the client reads it.
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "server/common/status_details.h"
#include "server/gateway/byte_range.h"
#include "server/gateway/error_body.h"
#include "server/gateway/handlers.h"

namespace kinora {
namespace {

// Sends bytes first … last of an artifact. Continues a download that breaks, as long as each attempt gets further.
class Download : public std::enable_shared_from_this<Download> {
 public:
  Download(RoutedRequest request, FrontendClient& frontend, std::string artifact, ByteRange range, HttpReply head)
      : request_(std::move(request)),
        frontend_(frontend),
        artifact_(std::move(artifact)),
        head_(std::move(head)),
        next_(range.first),
        end_(range.last + 1) {}

  void Open() {
    v1::DownloadArtifactRequest wanted;
    wanted.set_video_id(request_.id);
    wanted.set_artifact_id(artifact_);
    wanted.set_offset(next_);
    opened_at_ = next_;
    reader_ = frontend_.DownloadArtifact(request_.caller, wanted);
    request_.exchange->SetOnLeft([reader = reader_] { reader->Cancel(); });
    ReadNext();
  }

 private:
  using Chunk = absl::StatusOr<std::optional<v1::ArtifactChunk>>;

  void ReadNext() {
    reader_->Next([self = shared_from_this()](Chunk chunk) { self->OnChunk(std::move(chunk)); });
  }

  void OnChunk(Chunk chunk) {
    if (!chunk.ok()) return OnBroken(chunk.status());
    if (!*chunk) return OnBroken(absl::DataLossError("the clip is shorter than its record says"));
    std::string data = std::move(*(*chunk)->mutable_data());
    if ((*chunk)->offset() != next_) {
      reader_->Cancel();
      return OnBroken(absl::DataLossError("the server sent another part of the clip"));
    }
    const int64_t left = end_ - next_;
    if (static_cast<int64_t>(data.size()) > left) data.resize(static_cast<size_t>(left));
    next_ += static_cast<int64_t>(data.size());
    if (!std::exchange(begun_, true)) request_.exchange->Begin(head_, end_ - opened_at_);
    request_.exchange->Write(std::move(data), [self = shared_from_this()] { self->OnSent(); });
  }

  void OnSent() {
    if (next_ < end_) return ReadNext();
    reader_->Cancel();
    request_.exchange->End();
  }

  void OnBroken(const absl::Status& status) {
    const bool resumable = absl::IsUnavailable(status) || absl::IsAborted(status);
    if (resumable && next_ > opened_at_) return Open();
    if (begun_) return request_.exchange->Abort();
    request_.exchange->Reply(ErrorReply(status));
  }

  const RoutedRequest request_;
  FrontendClient& frontend_;
  const std::string artifact_;
  const HttpReply head_;
  std::shared_ptr<ReplyReader<v1::ArtifactChunk>> reader_;
  int64_t next_, end_;     // the next byte to send, and the one after the last
  int64_t opened_at_ = 0;  // next_ when the present attempt began
  bool begun_ = false;     // the reply has
};

// Letters, digits, dots, dashes and underscores; the frontend's names have no others.
std::string PlainName(std::string name) {
  for (char& c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-' && c != '_') c = '_';
  }
  return name;
}

std::string ValueOf(const HttpRequestHead& head, std::string_view name) {
  const std::string* value = head.Find(name);
  return value == nullptr ? "" : *value;
}

void SendArtifact(const RoutedRequest& request, FrontendClient& frontend, const v1::Artifact& artifact) {
  const HttpRequestHead& head = request.exchange->head();
  const std::string etag = absl::StrCat("\"", artifact.sha256(), "\"");
  HttpReply reply = {
      .status = 200,
      .fields = {{"Content-Type", artifact.media_type()},
                 {"ETag", etag},
                 {"Accept-Ranges", "bytes"},
                 {"Cache-Control", "private, no-cache"},
                 {"Content-Disposition", absl::StrCat("inline; filename=\"", PlainName(artifact.file_name()), "\"")}}};
  if (NamesETag(ValueOf(head, "if-none-match"), etag)) {
    reply.status = 304;
    return request.exchange->Reply(std::move(reply));
  }
  const std::string* condition = head.Find("if-range");
  const bool ranged = condition == nullptr || *condition == etag;
  ByteRange range = ParseByteRange(ranged ? ValueOf(head, "range") : "", artifact.bytes());
  if (range.kind == ByteRange::Kind::kUnsatisfiable) {
    reply = ProblemReply({416, "range_not_satisfiable", absl::StrCat("the file has ", artifact.bytes(), " bytes")});
    reply.fields.push_back({"Content-Range", absl::StrCat("bytes */", artifact.bytes())});
    return request.exchange->Reply(std::move(reply));
  }
  if (range.kind == ByteRange::Kind::kPart) {
    reply.status = 206;
    reply.fields.push_back(
        {"Content-Range", absl::StrCat("bytes ", range.first, "-", range.last, "/", artifact.bytes())});
  } else {
    range.last = artifact.bytes() - 1;
  }
  if (request.is_head()) {
    reply.content_length = range.last + 1 - range.first;
    return request.exchange->Reply(std::move(reply));
  }
  std::make_shared<Download>(request, frontend, artifact.id(), range, std::move(reply))->Open();
}

std::string VariantOf(const RoutedRequest& request) {
  const auto variant = request.query.find("variant");
  return variant == request.query.end() || variant->second.empty() ? kDefaultVariant : variant->second;
}

void OnVideo(const RoutedRequest& request, FrontendClient& frontend, const v1::Video& video) {
  const auto output = request.query.find("output_index");  // SGLang's
  if (output != request.query.end() && output->second != "0") {
    return request.exchange->Reply(ErrorReply(InvalidField("output_index", "must be 0; a job makes one clip")));
  }
  auto chosen = ChooseContent(video, VariantOf(request));
  if (auto* error = std::get_if<HttpError>(&chosen)) return request.exchange->Reply(ReplyOf(std::move(*error)));
  SendArtifact(request, frontend, video.artifacts(std::get<int>(chosen)));
}

}  // namespace

void GetContent(HandlerContext& context, const RoutedRequest& given) {
  RoutedRequest request = given;
  if (const auto link = request.query.find("link"); link != request.query.end()) {
    absl::StatusOr<std::string> authorization = context.links.Open(link->second, {request.id, VariantOf(request)});
    if (!authorization.ok()) return request.exchange->Reply(ErrorReply(authorization.status()));
    request.caller.authorization = *std::move(authorization);
  }
  const auto on_found = [request](absl::StatusOr<FrontendClient*> found) {
    if (!found.ok()) return request.exchange->Reply(ErrorReply(found.status()));
    request.call->Set((*found)->GetVideo(request.caller, request.id,
                                         [request, frontend = *found](const absl::StatusOr<v1::Video>& video) {
                                           if (!video.ok()) return request.exchange->Reply(ErrorReply(video.status()));
                                           OnVideo(request, *frontend, *video);
                                         }));
  };
  context.frontends.Find(request.caller, request.id, request.call, on_found);
}

}  // namespace kinora
