#include "tests/server/frontend/jobs/store_operations.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/common/status_details.h"
#include "server/common/timestamps.h"
#include "tests/server/frontend/jobs/store_texts.h"
#include "tests/testing/wait_for.h"

namespace kinora {
namespace {

constexpr const char* kNames[] = {"Create",          "FindCreated",     "Claim",    "Renew",       "Append",
                                  "Finish",          "Requeue",         "Cancel",   "FailQueued",  "Delete",
                                  "CancelAndDelete", "Purge",           "Sweep",    "List",        "Events",
                                  "PutModel",        "AddSpeed",        "PutInput", "RemoveInput", "PutFrontend",
                                  "EndOtherLeases",  "TakeLostClients", "Advance",  "Reopen",      "PutResumePoint"};
static_assert(std::size(kNames) == StoreOperation::kKinds);
constexpr int kWeights[] = {16, 3, 16, 6, 14, 12, 10, 6, 3, 3, 4, 4, 3, 8, 3, 2, 2, 2, 1, 3, 1, 2, 8, 2, 10};
static_assert(std::size(kWeights) == StoreOperation::kKinds);

constexpr absl::Duration kLease = absl::Seconds(30);

v1::CreateVideoRequest DrawRequest(StoreOperation& operation) {
  v1::CreateVideoRequest request;
  request.set_model("m");
  const int key = operation.Pick(6);
  if (key < 3) request.set_request_id(absl::StrCat("key", key));
  request.set_detach(operation.Pick(2) == 0);
  const int content = operation.Pick(3);
  request.mutable_generation()->set_prompt(content == 0 ? "a red Kite" : "a blue fox");
  if (content != 1) (*request.mutable_labels())["team"] = "film";
  if (content == 2) *request.mutable_output()->mutable_ttl() = ToProto(absl::Minutes(10));
  request.mutable_scheduling()->set_priority(content - 1);
  return request;
}

v1::Progress DrawProgress(StoreOperation& operation) {
  v1::Progress progress;
  const int step = operation.Pick(4);
  if (step == 0) return progress;
  progress.set_stage(step == 1 ? "denoise" : "decode");
  progress.set_step(step);
  progress.set_fraction(0.25 * step);
  *progress.mutable_remaining() = ToProto(absl::Seconds(step));
  return progress;
}

v1::VideoEvent DrawEvent(StoreOperation& operation) {
  v1::VideoEvent event;
  switch (operation.Pick(6)) {
    case 0:
      event.mutable_state()->set_state(v1::Video::RUNNING);
      event.mutable_state()->mutable_resolved()->set_precision(operation.Pick(2) == 0 ? "f32" : "bf16");
      break;
    case 1:
      event.mutable_state()->set_state(v1::Video::FINALIZING);
      break;
    case 2:  // not an event of a run
      event.mutable_state()->set_state(v1::Video::QUEUED);
      break;
    default:
      *event.mutable_stage() = DrawProgress(operation);
  }
  return event;
}

v1::ResumePoint DrawPoint(StoreOperation& operation) {
  v1::ResumePoint point;
  if (operation.Pick(5) == 0) return point;
  point.set_id(absl::StrCat("point", operation.Pick(3)));
  point.set_bytes(1000);
  point.set_sha256(std::string(64, 'a'));
  point.set_stage(v1::STAGE_DENOISE);
  point.set_part(operation.Pick(3));
  point.set_step(1 + operation.Pick(8));
  point.set_total_steps(8);
  point.set_fraction(0.125 * point.step());
  return point;
}

Outcome DrawOutcome(StoreOperation& operation) {
  constexpr v1::Video::State kStates[] = {v1::Video::COMPLETED, v1::Video::COMPLETED, v1::Video::FAILED,
                                          v1::Video::CANCELLED, v1::Video::RUNNING};
  Outcome outcome;
  outcome.state = kStates[operation.Pick(5)];
  outcome.error = ToRpcStatus(WithErrorInfo(absl::ResourceExhaustedError("full"), "DISK_FULL"));
  outcome.usage.set_device_seconds(operation.Pick(10));
  outcome.progress = DrawProgress(operation);
  for (int i = operation.Pick(3); i > 0; --i) outcome.artifacts.emplace_back().set_id(absl::StrCat(i, ".mp4"));
  return outcome;
}

std::string MustBeOk(const absl::Status& status) { return Difference(Text(status), Text(absl::OkStatus())); }

// Returns the pages together; their sizes must be those asked for.
absl::StatusOr<std::vector<v1::Video>> AllPages(JobStore& store, ListOptions options) {
  const bool searches = !options.labels.empty() || !options.words.empty();
  std::vector<v1::Video> videos;
  while (true) {
    auto page = WaitFor<JobPage>([&](auto done) { store.List(options, std::move(done)); });
    if (!page.ok()) return page.status();
    const bool last = page->next_page_token.empty();
    if (std::ssize(page->videos) > options.page_size) return absl::InternalError("a page is too long");
    if (!last && !searches && std::ssize(page->videos) < options.page_size) return absl::InternalError("a short page");
    std::move(page->videos.begin(), page->videos.end(), std::back_inserter(videos));
    if (last) return videos;
    options.page_token = page->next_page_token;
    options.after_id.clear();
  }
}

}  // namespace

std::vector<StoreOperation> DrawOperations(uint64_t seed, int count) {
  std::mt19937_64 random(seed);
  std::vector<int> kinds;
  for (int kind = 0; kind < StoreOperation::kKinds; ++kind) kinds.insert(kinds.end(), kWeights[kind], kind);
  std::vector<StoreOperation> operations(count);
  for (StoreOperation& operation : operations) {
    operation.kind = static_cast<StoreOperation::Kind>(kinds[random() % kinds.size()]);
    operation.slot = static_cast<int>(random() % StoreComparison::kSlots);
    operation.choice = static_cast<uint32_t>(random());
  }
  return operations;
}

std::string Describe(const StoreOperation& operation) {
  return absl::StrCat(kNames[operation.kind], " slot ", operation.slot, " choice ", operation.choice);
}

std::string StoreComparison::Apply(const StoreOperation& operation) {
  std::string difference = ApplyToJobs(operation);
  if (difference.empty()) difference = CompareJobs();
  if (difference.empty()) difference = CompareEvents(slots_[operation.slot], 0);
  if (difference.empty() && operation.kind == StoreOperation::kReopen) difference = CompareAll();
  return difference;
}

std::string StoreComparison::ApplyToJobs(StoreOperation operation) {
  JobStore& store = stores_.jobs();
  const JobId id = slots_[operation.slot];
  const auto video = [](auto call) { return Text(WaitFor<v1::Video>(call)); };
  const auto error = ToRpcStatus(WithErrorInfo(absl::DeadlineExceededError("late"), "DEADLINE"));
  switch (operation.kind) {
    case StoreOperation::kCreate:
      return Create(operation);
    case StoreOperation::kFindCreated: {
      const v1::CreateVideoRequest request = DrawRequest(operation);
      return Difference(Text(WaitFor<Created>([&](auto done) { store.FindCreated(request, std::move(done)); })),
                        Text(model_.FindCreated(request)));
    }
    case StoreOperation::kClaim: {
      const std::string owner = operation.Pick(2) == 0 ? "a" : "b";
      return Difference(Text(WaitFor<Claimed>([&](auto done) { store.Claim(id, owner, kLease, std::move(done)); })),
                        Text(model_.Claim(id, owner, kLease)));
    }
    case StoreOperation::kCancel:
      return Difference(video([&](auto done) { store.Cancel(id, std::move(done)); }), Text(model_.Cancel(id)));
    case StoreOperation::kFailQueued:
      return Difference(video([&](auto done) { store.FailQueued(id, error, std::move(done)); }),
                        Text(model_.FailQueued(id, error)));
    case StoreOperation::kEvents:
      return CompareEvents(id, operation.Pick(6) - 1);
    case StoreOperation::kList:
      return List(operation);
    default:
      return ApplyToRecords(operation);
  }
}

// Calls that remove records.
std::string StoreComparison::ApplyToRecords(StoreOperation operation) {
  JobStore& store = stores_.jobs();
  const JobId id = slots_[operation.slot];
  switch (operation.kind) {
    case StoreOperation::kDelete:
      return Difference(Text(WaitForStatus([&](auto done) { store.Delete(id, std::move(done)); })),
                        Text(model_.Delete(id)));
    case StoreOperation::kCancelAndDelete:
      return Difference(Text(WaitFor<bool>([&](auto done) { store.CancelAndDelete(id, std::move(done)); })),
                        Text(model_.CancelAndDelete(id)));
    case StoreOperation::kPurge:
      return Difference(Text(WaitForStatus([&](auto done) { store.Purge(id, std::move(done)); })),
                        Text(model_.Purge(id)));
    case StoreOperation::kSweep: {
      auto hidden =
          WaitFor<std::vector<JobId>>([&](auto done) { stores_.jobs().SweepExpired(clock_.Now(), std::move(done)); });
      return Difference(TextOfSet(std::move(hidden)), TextOfSet(model_.SweepExpired(clock_.Now())));
    }
    default:
      return ApplyToAttempt(operation);
  }
}

// Most attempts are the current one, if there is one.
std::string StoreComparison::ApplyToAttempt(StoreOperation operation) {
  Attempt attempt = model_.NewestAttempt(slots_[operation.slot]);
  const int kind = operation.Pick(12);
  if (kind == 0) attempt.number -= 1;
  if (kind == 1) attempt.number += 1;
  if (kind == 2) attempt.owner = attempt.owner == "a" ? "b" : "a";
  switch (operation.kind) {
    case StoreOperation::kRenew: {
      const absl::Duration lease = kLease * (1 + operation.Pick(3));
      return Difference(Text(WaitFor<Lease>([&](auto done) { stores_.jobs().Renew(attempt, lease, std::move(done)); })),
                        Text(model_.Renew(attempt, lease)));
    }
    case StoreOperation::kAppend:
      return Append(attempt, operation);
    case StoreOperation::kPutResumePoint:
      return PutResumePoint(attempt, operation);
    case StoreOperation::kFinish:
      return Finish(attempt, operation);
    case StoreOperation::kRequeue:
      return Requeue(attempt, operation);
    default:
      return ApplyToOthers(operation);
  }
}

std::string StoreComparison::Append(const Attempt& attempt, StoreOperation operation) {
  const v1::VideoEvent event = DrawEvent(operation);
  return Difference(Text(WaitForStatus([&](auto done) { stores_.jobs().Append(attempt, event, std::move(done)); })),
                    Text(model_.Append(attempt, event)));
}

std::string StoreComparison::PutResumePoint(const Attempt& attempt, StoreOperation operation) {
  const v1::ResumePoint point = DrawPoint(operation);
  const auto put = [&](auto done) { stores_.jobs().PutResumePoint(attempt, point, std::move(done)); };
  return Difference(Text(WaitFor<std::optional<v1::ResumeMark>>(put)), Text(model_.PutResumePoint(attempt, point)));
}

std::string StoreComparison::Finish(const Attempt& attempt, StoreOperation operation) {
  const Outcome outcome = DrawOutcome(operation);
  return Difference(Text(WaitForStatus([&](auto done) { stores_.jobs().Finish(attempt, outcome, std::move(done)); })),
                    Text(model_.Finish(attempt, outcome)));
}

std::string StoreComparison::Requeue(const Attempt& attempt, StoreOperation operation) {
  Release release{.why = "signal 9", .lost_group = operation.Pick(2) == 0};
  release.if_lost = operation.Pick(3) == 0;
  release.progress = DrawProgress(operation);
  release.drop_earlier_point = operation.Pick(2) == 0;
  release.preempted = operation.Pick(3) == 0;
  return Difference(
      Text(WaitFor<v1::Video>([&](auto done) { stores_.jobs().Requeue(attempt, release, std::move(done)); })),
      Text(model_.Requeue(attempt, release)));
}

std::string StoreComparison::ApplyToOthers(StoreOperation operation) {
  constexpr absl::Duration kPassed[] = {absl::Milliseconds(1500), absl::Seconds(31), absl::Minutes(11),
                                        absl::Minutes(61), absl::Hours(24 * 31)};
  switch (operation.kind) {
    case StoreOperation::kPutModel:
      return PutModel(operation) + CompareCatalogue();
    case StoreOperation::kAddSpeed:
      return AddSpeeds(operation) + CompareCatalogue();
    case StoreOperation::kPutInput:
    case StoreOperation::kRemoveInput:
      return PutOrRemoveInput(operation) + CompareInputs();
    case StoreOperation::kPutFrontend:
    case StoreOperation::kEndOtherLeases:
    case StoreOperation::kTakeLostClients:
      return ApplyToFrontends(operation);
    case StoreOperation::kAdvance:
      clock_.Advance(kPassed[std::max(0, operation.Pick(9) - 4)]);
      return "";
    default:
      stores_.Reopen();
      return "";
  }
}

std::string StoreComparison::PutModel(StoreOperation operation) {
  v1::ModelInfo model;
  model.set_id(absl::StrCat("model", operation.slot % 3));
  (*model.mutable_digests())["transformer"] = absl::StrCat(operation.Pick(100));
  model_.models[model.id()] = model;
  return MustBeOk(WaitForStatus([&](auto done) { stores_.catalogue().PutModel(model, std::move(done)); }));
}

std::string StoreComparison::AddSpeeds(StoreOperation operation) {
  const std::string place = absl::StrCat("place", operation.slot % 2);
  std::string difference;
  for (int i = operation.Pick(40); i >= 0; --i) {
    v1::RunSpeed run;
    run.add_stages()->set_seconds(operation.Pick(2) + i);
    model_.AddSpeed(place, run);
    difference +=
        MustBeOk(WaitForStatus([&](auto done) { stores_.catalogue().AddSpeed(place, run, std::move(done)); }));
  }
  return difference;
}

std::string StoreComparison::PutOrRemoveInput(StoreOperation operation) {
  const std::string sha256(64, static_cast<char>('a' + operation.slot % 3));
  if (operation.kind == StoreOperation::kRemoveInput) {
    const auto known = model_.inputs.find(sha256);
    const bool stays =
        known != model_.inputs.end() && !known->second.media_type.empty() && known->second.expiry > clock_.Now();
    if (!stays) model_.inputs.erase(sha256);
    const absl::Status removed =
        WaitForStatus([&](auto done) { stores_.inputs().RemoveInput(sha256, clock_.Now(), std::move(done)); });
    return stays ? (absl::IsAborted(removed) ? "" : "an input that is in use is removed") : MustBeOk(removed);
  }
  InputRecord input{.sha256 = sha256, .bytes = operation.Pick(1000)};
  if (operation.Pick(2) == 0) input.media_type = "image/png";
  input.expiry = clock_.Now() + absl::Hours(operation.Pick(48));
  model_.inputs[sha256] = input;
  return MustBeOk(WaitForStatus([&](auto done) { stores_.inputs().PutInput(input, std::move(done)); }));
}

std::string StoreComparison::ApplyToFrontends(StoreOperation operation) {
  FrontendRecords& frontends = stores_.frontends();
  const FrontendId id(1, static_cast<char>('a' + operation.slot % 3));
  const absl::Duration lease = kLease * (1 + operation.Pick(3));
  switch (operation.kind) {
    case StoreOperation::kPutFrontend:
      model_.PutFrontend(id, lease);
      return MustBeOk(WaitForStatus(
          [&](auto done) { frontends.PutFrontend({.id = id, .address = "here"}, lease, std::move(done)); }));
    case StoreOperation::kEndOtherLeases:
      model_.EndOtherLeases(id);
      return MustBeOk(WaitForStatus([&](auto done) { frontends.EndOtherLeases(id, std::move(done)); }));
    default:
      return Difference(
          TextOfSet(WaitFor<std::vector<JobId>>([&](auto done) { frontends.TakeLostClients(id, std::move(done)); })),
          TextOfSet(model_.TakeLostClients(id)));
  }
}

std::string StoreComparison::Create(StoreOperation operation) {
  const v1::CreateVideoRequest request = DrawRequest(operation);
  v1::Generation effective = request.generation();
  effective.set_seed(operation.Pick(1000));
  const double seconds = operation.slot;
  const auto created =
      WaitFor<Created>([&](auto done) { stores_.jobs().Create(request, effective, seconds, std::move(done)); });
  const JobId id = created.ok() ? created->video.id() : "";
  const absl::StatusOr<Created> expected = model_.Create(request, effective, seconds, id);
  if (created.ok()) {
    const bool known = std::find(ids_.begin(), ids_.end(), id) != ids_.end();
    if (!known) ids_.push_back(id);
    if (known && !created->replayed) return absl::StrCat("the new job has the id of an older one, ", id);
    slots_[operation.slot] = id;
  }
  return Difference(Text(created), Text(expected));
}

std::string StoreComparison::List(StoreOperation operation) {
  const std::vector<v1::Video::State> kStates[] = {
      {}, {v1::Video::QUEUED}, {v1::Video::QUEUED, v1::Video::RUNNING}, {v1::Video::FAILED, v1::Video::CANCELLED}};
  ListOptions options{.page_size = 1 + operation.Pick(4), .page_token = "", .states = kStates[operation.Pick(4)]};
  options.ascending = operation.Pick(2) == 0;
  if (operation.Pick(3) == 0) options.labels["team"] = "film";
  if (operation.Pick(3) == 0) options.words = {"kite", "red"};
  if (operation.Pick(3) == 0) options.after_id = slots_[operation.slot];
  if (operation.Pick(3) == 0) options.id_prefix = slots_[(operation.slot + 1) % kSlots].substr(0, 1);
  return CompareList(options);
}

std::string StoreComparison::CompareList(const ListOptions& options) {
  return Difference(AllPages(stores_.jobs(), options), model_.List(options));
}

// Compares all jobs that can be seen, those that are recovered after a restart, and the events that were heard.
std::string StoreComparison::CompareJobs() {
  std::string difference = CompareList({.page_size = 1000, .page_token = "", .states = {}});
  if (!difference.empty()) return "in the list of jobs: " + difference;
  const auto unfinished =
      WaitFor<std::vector<UnfinishedJob>>([&](auto done) { stores_.jobs().Unfinished(std::move(done)); });
  difference = Difference(unfinished, absl::StatusOr<std::vector<UnfinishedJob>>(model_.Unfinished()));
  if (!difference.empty()) return "in Unfinished: " + difference;
  const auto lost =
      WaitFor<std::vector<UnfinishedJob>>([&](auto done) { stores_.jobs().LostRuns("b", std::move(done)); });
  difference = Difference(lost, absl::StatusOr<std::vector<UnfinishedJob>>(model_.LostRuns("b")));
  if (!difference.empty()) return "in LostRuns: " + difference;
  const std::vector<v1::VideoEvent>&heard = stores_.heard(), &expected = model_.heard();
  for (; heard_ < std::min(heard.size(), expected.size()); ++heard_) {
    if (Bytes(heard[heard_]) == Bytes(expected[heard_])) continue;
    difference = Difference(Text(heard[heard_]), Text(expected[heard_]));
    if (!difference.empty()) return "in what the listener heard: " + difference;
  }
  if (heard.size() == expected.size()) return "";
  return absl::StrCat("the listener heard ", heard.size(), " events, but ", expected.size(), " were stored");
}

std::string StoreComparison::CompareEvents(const JobId& id, int64_t after) {
  const auto history = WaitFor<JobHistory>([&](auto done) { stores_.jobs().EventsAfter(id, after, std::move(done)); });
  const std::string difference = Difference(history, model_.EventsAfter(id, after));
  return difference.empty() ? "" : absl::StrCat("in the events of ", id, ": ", difference);
}

std::string StoreComparison::CompareAll() {
  std::string difference = CompareJobs() + CompareCatalogue() + CompareInputs();
  for (const JobId& id : ids_) {
    if (!difference.empty()) return difference;
    difference = CompareEvents(id, 0);
    if (!difference.empty()) return difference;
    difference = Difference(Text(WaitFor<v1::Video>([&](auto done) { stores_.jobs().Get(id, std::move(done)); })),
                            Text(model_.Get(id)));
  }
  const auto unknown = WaitFor<std::vector<JobId>>([&](auto done) { stores_.jobs().Unknown(ids_, std::move(done)); });
  return difference + Difference(TextOfSet(unknown), TextOfSet(model_.Unknown(ids_)));
}

std::string StoreComparison::CompareCatalogue() {
  const auto models =
      WaitFor<std::vector<v1::ModelInfo>>([&](auto done) { stores_.catalogue().Models(std::move(done)); });
  std::vector<v1::ModelInfo> known;
  for (const auto& [id, model] : model_.models) known.push_back(model);
  std::string difference = Difference(Text(models), Text(absl::StatusOr<std::vector<v1::ModelInfo>>(known)));
  for (const char* place : {"place0", "place1", "place2"}) {
    const auto history =
        WaitFor<v1::SpeedHistory>([&](auto done) { stores_.catalogue().Speeds(place, std::move(done)); });
    v1::SpeedHistory expected;
    for (const v1::RunSpeed& run : model_.speeds[place]) *expected.add_runs() = run;
    difference += Difference(Text(history), Text(absl::StatusOr<v1::SpeedHistory>(expected)));
  }
  return difference;
}

std::string StoreComparison::CompareInputs() {
  auto inputs = WaitFor<std::vector<InputRecord>>([&](auto done) { stores_.inputs().Inputs(std::move(done)); });
  std::vector<InputRecord> expected;
  for (const auto& [sha256, input] : model_.inputs) expected.push_back(input);
  if (inputs.ok()) {  // stores return them in any order, the model sorted
    std::sort(inputs->begin(), inputs->end(),
              [](const InputRecord& a, const InputRecord& b) { return a.sha256 < b.sha256; });
  }
  return Difference(Text(inputs), Text(absl::StatusOr<std::vector<InputRecord>>(expected)));
}

}  // namespace kinora
