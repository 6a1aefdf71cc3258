// POST /v1/videos, /v1/audio/generate and /v1/estimates. The caller's token is checked first, by the list of models
// that the mapping needs anyway: a stranger's body is not read.
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "server/common/sha256.h"
#include "server/common/status_details.h"
#include "server/gateway/create_body.h"
#include "server/gateway/create_fields.h"
#include "server/gateway/handlers.h"
#include "server/gateway/model_choice.h"
#include "server/gateway/video_body.h"

namespace kinora {
namespace {

class CreateCall : public std::enable_shared_from_this<CreateCall> {
 public:
  CreateCall(HandlerContext& context, CreateKind kind, const RoutedRequest& request)
      : context_(context),
        kind_(kind),
        request_(request),
        key_(HeaderOr("idempotency-key", "")),
        body_(std::make_shared<CreateBody>(context, request_.exchange)),
        scratch_(std::in_place, context.scratch_space) {}

  void Begin() {
    frontends_ = context_.frontends.InTurn(key_);
    AskModels();
  }

 private:
  std::string HeaderOr(std::string_view name, std::string_view otherwise) const {
    const std::string* value = request_.exchange->head().Find(name);
    return value == nullptr ? std::string(otherwise) : *value;
  }
  FrontendClient& frontend() { return *frontends_[index_]; }
  // Frees what the request holds before the client gets the answer and may send its next request.
  void Reply(HttpReply reply) {
    body_ = nullptr;
    fetched_.clear();
    scratch_.reset();
    request_.exchange->Reply(std::move(reply));
  }
  void Fail(const absl::Status& status) { Reply(ErrorReply(status)); }

  void FailOrTryNext(const absl::Status& status) {
    if (!AnotherMayTakeIt(status) || index_ + 1 == frontends_.size()) return Fail(status);
    index_ += 1;
    uploaded_.clear();
    AskModels();
  }

  void AskModels() {
    request_.call->Set(frontend().ListModels(
        request_.caller, [self = shared_from_this()](absl::StatusOr<v1::ListModelsResponse> models) {
          if (!models.ok()) return self->FailOrTryNext(models.status());
          self->models_ = *std::move(models);
          self->body_read_ ? self->Map() : self->ReadBody();
        }));
  }

  void ReadBody() {
    body_->Read([self = shared_from_this()](const absl::Status& status) {
      if (!status.ok()) return self->Fail(status);
      self->body_read_ = true;
      self->Map();
    });
  }

  // Chooses among the models of all frontends, not those of the present one.
  void ChooseDefault() {
    const auto on_models = [self = shared_from_this()](const absl::StatusOr<v1::ListModelsResponse>& models) {
      const absl::StatusOr<v1::ModelInfo> model = models.ok() ? ChooseModel(*models, "") : models.status();
      if (!model.ok()) return self->Fail(model.status());
      self->model_ = model->id();
      self->Map();
    };
    context_.frontends.ListModels(request_.caller, on_models);
  }

  void Map() {
    const std::string asked = body_->fields().model();
    if (asked.empty() && model_.empty() && frontends_.size() > 1) return ChooseDefault();
    const absl::StatusOr<v1::ModelInfo> model = ChooseModel(models_, asked.empty() ? model_ : asked);
    if (!model.ok()) return FailOrTryNext(model.status());
    model_ = model->id();
    const FieldRules rules = {.ignore_unknown = absl::EqualsIgnoreCase(HeaderOr("x-kinora-ignore-unknown", ""), "true"),
                              .audio_only = kind_ == CreateKind::kAudio,
                              .url_hosts = context_.url_hosts};
    ByteBudget::Share scratch(context_.body_memory);
    if (const absl::Status taken = body_->TakeScratch(scratch); !taken.ok()) return Fail(taken);
    absl::StatusOr<CreateFields> fields = ToCreateRequest(body_->fields(), *model, rules);
    if (!fields.ok()) return Fail(fields.status());
    fields_ = *std::move(fields);
    // A frontend with several models would ask for a name.
    if (frontends_.size() > 1) fields_.request.set_model(model_);
    std::string& id = *fields_.request.mutable_request_id();
    if (!key_.empty() && !id.empty() && id != key_) {
      return Fail(InvalidField("request_id", "differs from the header Idempotency-Key; give one of them"));
    }
    if (!key_.empty()) id = key_;
    PlaceInput(0);
  }

  // Brings one input after another to the frontend.
  void PlaceInput(size_t index) {
    if (index == fields_.inputs.size()) return Send();
    const PendingInput& pending = fields_.inputs[index];
    const auto placed = [self = shared_from_this(), index](absl::StatusOr<v1::Input> input) {
      if (!input.ok()) return self->OnNoInput(self->fields_.inputs[index], input.status());
      self->uploaded_[self->KeyOf(self->fields_.inputs[index])] = *input;
      self->UseInput(index, *input);
    };
    if (pending.source == PendingInput::Source::kStored) {
      return request_.call->Set(frontend().GetInput(request_.caller, pending.value, placed));
    }
    const auto known = uploaded_.find(KeyOf(pending));
    if (known != uploaded_.end()) return UseInput(index, known->second);
    if (pending.source == PendingInput::Source::kUrl && fetched_.count(pending.value) == 0) return FetchInput(index);
    absl::StatusOr<std::shared_ptr<const SpoolFile>> file = FileOf(pending);
    if (!file.ok()) return Fail(file.status());
    request_.call->Set(frontend().UploadInput(request_.caller, *std::move(file), "", placed));
  }

  void FetchInput(size_t index) {
    const auto fetched = [self = shared_from_this(), index](absl::StatusOr<std::shared_ptr<const SpoolFile>> file) {
      const PendingInput& pending = self->fields_.inputs[index];
      if (absl::IsInvalidArgument(file.status())) {
        return self->Fail(InvalidField(pending.field, std::string(file.status().message())));
      }
      if (!file.ok()) return self->Fail(file.status());
      self->fetched_[pending.value] = *std::move(file);
      self->PlaceInput(index);
    };
    request_.call->Set(context_.fetcher->Fetch(fields_.inputs[index].value, fetched));
  }

  void UseInput(size_t index, const v1::Input& input) {
    const absl::Status status = SetInput(fields_.inputs[index], input, fields_.request);
    if (!status.ok()) return Fail(status);
    PlaceInput(index + 1);
  }

  // What the frontend rejects about a file is wrong in the field that names it.
  void OnNoInput(const PendingInput& pending, const absl::Status& status) {
    const bool wrong = absl::IsInvalidArgument(status) || absl::IsNotFound(status);
    if (!wrong) return FailOrTryNext(status);
    Fail(InvalidField(pending.field, std::string(status.message())));
  }

  static std::string KeyOf(const PendingInput& pending) {
    return absl::StrCat(static_cast<int>(pending.source), " ",
                        pending.source == PendingInput::Source::kPart ? pending.value : Sha256Hex(pending.value));
  }

  absl::StatusOr<std::shared_ptr<const SpoolFile>> FileOf(const PendingInput& pending) {
    if (pending.source == PendingInput::Source::kPart) {
      const auto part = body_->files().find(pending.value);
      if (part == body_->files().end()) return InvalidField(pending.field, "the body has no file part of this name");
      return part->second;
    }
    if (pending.source == PendingInput::Source::kUrl) return fetched_.at(pending.value);
    const auto bytes = static_cast<int64_t>(pending.value.size());
    if (bytes > context_.max_upload_bytes) {
      return InvalidField(pending.field, absl::StrCat("has more than ", context_.max_upload_bytes, " bytes"));
    }
    if (!scratch_->Grow(bytes)) return OthersUseAll("space for uploads");
    KINORA_ASSIGN_OR_RETURN(std::shared_ptr<SpoolFile> file, SpoolFile::Create(context_.scratch_folder));
    KINORA_RETURN_IF_ERROR(file->Append(pending.value));
    file->Finish();
    return file;
  }

  void Send() {
    if (kind_ == CreateKind::kEstimate) {
      return request_.call->Set(frontend().EstimateVideo(
          request_.caller, fields_.request, [self = shared_from_this()](absl::StatusOr<v1::Estimate> estimate) {
            if (!estimate.ok()) return self->FailOrTryNext(estimate.status());
            self->Answer(JsonReply(200, EstimateBody(*estimate, self->model_)), /*replayed=*/false);
          }));
    }
    request_.call->Set(frontend().CreateVideo(
        request_.caller, fields_.request, [self = shared_from_this()](absl::StatusOr<CreatedVideo> created) {
          if (!created.ok()) return self->FailOrTryNext(created.status());
          self->context_.frontends.Remember(created->video.id(), &self->frontend());
          self->Answer(VideoReply(created->video), created->replayed);
        }));
  }

  void Answer(HttpReply reply, bool replayed) {
    if (replayed) reply.fields.push_back({"X-Kinora-Replayed", "true"});
    if (!fields_.ignored.empty()) reply.fields.push_back({"X-Kinora-Ignored", absl::StrJoin(fields_.ignored, ", ")});
    Reply(std::move(reply));
  }

  HandlerContext& context_;
  const CreateKind kind_;
  const RoutedRequest request_;
  const std::string key_;
  std::shared_ptr<CreateBody> body_;          // until the reply
  std::optional<ByteBudget::Share> scratch_;  // of data: URLs, until the reply
  bool body_read_ = false;
  std::vector<FrontendClient*> frontends_;
  size_t index_ = 0;  // the present one
  v1::ListModelsResponse models_;
  std::string model_;  // the ID, once it is chosen
  CreateFields fields_;
  std::map<std::string, v1::Input> uploaded_;                        // to the present frontend
  std::map<std::string, std::shared_ptr<const SpoolFile>> fetched_;  // by URL
};

}  // namespace

void Create(HandlerContext& context, CreateKind kind, const RoutedRequest& request) {
  std::make_shared<CreateCall>(context, kind, request)->Begin();
}

}  // namespace kinora
