#include "server/frontend/known_models.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/common/regular_file.h"
#include "server/common/status_details.h"
#include "server/common/text_format_error.h"
#include "server/frontend/jobs/job_metrics.h"
#include "server/request/model_conversion.h"

namespace kinora {
namespace {

constexpr char kField[] = "model_description";
constexpr int kLastJobs = 200;  // of all models together, read for their run times

// A binary message contains tags and lengths that are control characters, which text does not have.
bool IsText(const std::string& bytes) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [](unsigned char c) { return c >= ' ' || c == '\n' || c == '\r' || c == '\t'; });
}

absl::StatusOr<v1::ModelInfo> ReadDescription(const std::string& path) {
  KINORA_ASSIGN_OR_RETURN(const RegularFile file, ReadRegularFile(path));
  v1::ModelInfo model;
  TextFormatError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (IsText(file.bytes) ? !parser.ParseFromString(file.bytes, &model) : !model.ParseFromString(file.bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ":", error.text().empty() ? " is not a ModelInfo, in text or binary format" : error.text(),
                     "; create the file with kinora-worker --describe"));
  }
  if (model.id().empty())
    return absl::InvalidArgumentError(absl::StrCat(path, ": id: must be set; requests refer to the model by it"));
  const absl::Status complete = ToModelDescription(model).status();
  if (complete.ok()) return model;
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", std::string(complete.message())));
}

// Calls the store and waits for its answer.
template <typename T, typename F>
T Answer(F call) {
  T answer;
  absl::Notification answered;
  call([&](T got) {
    answer = std::move(got);
    answered.Notify();
  });
  answered.WaitForNotification();
  return answer;
}

}  // namespace

absl::StatusOr<std::vector<v1::ModelInfo>> ReadModelDescriptions(const v1::FrontendConfig& config) {
  std::vector<v1::ModelInfo> models;
  std::set<std::string> ids;
  std::vector<FieldViolation> problems;
  for (const std::string& path : config.model_description()) {
    absl::StatusOr<v1::ModelInfo> model = ReadDescription(path);
    if (!model.ok()) {
      problems.push_back({kField, std::string(model.status().message())});
    } else if (!ids.insert(model->id()).second) {
      problems.push_back({kField, absl::StrCat(path, ": id: \"", model->id(), "\" is also used by another file")});
    } else {
      models.push_back(*std::move(model));
    }
  }
  if (!problems.empty()) return InvalidFields(problems);
  return models;
}

absl::StatusOr<std::vector<v1::ModelInfo>> BeginWithKnownModels(const v1::FrontendConfig& config,
                                                                CatalogueStore& catalogue, JobStore& jobs,
                                                                FrontendMetrics& metrics, QueueMetrics& queue) {
  KINORA_ASSIGN_OR_RETURN(const std::vector<v1::ModelInfo> described, ReadModelDescriptions(config));
  for (const v1::ModelInfo& model : described) {
    const auto put =
        Answer<absl::Status>([&](auto done) { catalogue.PutModel(model, [done](const absl::Status& s) { done(s); }); });
    if (!put.ok()) return absl::Status(put.code(), absl::StrCat(kField, ": ", std::string(put.message())));
    Log(Severity::kInfo, "model_described", {{"model", model.id()}});
  }
  using Models = absl::StatusOr<std::vector<v1::ModelInfo>>;
  KINORA_ASSIGN_OR_RETURN(auto models, Answer<Models>([&](auto done) { catalogue.Models(done); }));
  for (const v1::ModelInfo& model : models) BeginSeries(metrics, model);
  const ListOptions last{.page_size = kLastJobs, .page_token = "", .states = {v1::Video::COMPLETED}};
  const auto page = Answer<absl::StatusOr<JobPage>>([&](auto done) { jobs.List(last, done); });
  if (!page.ok()) return models;  // only makes the first queue estimates worse
  for (auto video = page->videos.rbegin(); video != page->videos.rend(); ++video) queue.Observe(*video);
  return models;
}

}  // namespace kinora
