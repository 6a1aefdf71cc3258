#include "tests/server/frontend/jobs/sample_jobs.h"

#include "engine/base/check.h"
#include "server/common/status_details.h"
#include "server/common/timestamps.h"
#include "server/frontend/inputs/sqlite_input_records.h"
#include "server/frontend/jobs/sqlite_catalogue_store.h"
#include "tests/testing/wait_for.h"

namespace kinora {
namespace {

class Maker {
 public:
  Maker(SqliteJobStore& store, FakeClock& clock)
      : store_(store), catalogue_(store.file()), inputs_(store.file()), clock_(clock) {}

  JobId Create(const std::string& name, absl::Duration ttl = absl::ZeroDuration()) {
    clock_.Advance(absl::Seconds(1));
    v1::CreateVideoRequest request;
    request.set_model("sample");
    request.set_request_id(name);
    request.mutable_generation()->set_prompt(name);
    (*request.mutable_labels())["sample"] = name;
    request.set_detach(name != "queued, tied");
    request.mutable_scheduling()->set_priority(3);
    *request.mutable_scheduling()->mutable_deadline() = ToProto(absl::Hours(24 * 365 * 50));
    if (ttl > absl::ZeroDuration()) *request.mutable_output()->mutable_ttl() = ToProto(ttl);
    v1::Generation effective = request.generation();
    effective.set_seed(7);
    effective.set_width(128);
    return Must(WaitFor<Created>([&](auto done) { store_.Create(request, effective, 0, std::move(done)); })).video.id();
  }
  Attempt Claim(const JobId& id) {
    clock_.Advance(absl::Seconds(1));
    return Must(WaitFor<Claimed>([&](auto done) { store_.Claim(id, kSampleOwner, kSampleLease, std::move(done)); }))
        .attempt;
  }
  // Adds two events: the resolved request and a stage.
  Attempt Run(const JobId& id) {
    Attempt attempt = Claim(id);
    v1::VideoEvent event;
    event.mutable_state()->set_state(v1::Video::RUNNING);
    event.mutable_state()->mutable_resolved()->set_precision("bf16");
    Append(attempt, event);
    event.mutable_stage()->set_stage("denoise");
    event.mutable_stage()->set_total_steps(30);
    Append(attempt, event);
    return attempt;
  }
  void Append(const Attempt& attempt, const v1::VideoEvent& event) {
    Must(WaitForStatus([&](auto done) { store_.Append(attempt, event, std::move(done)); }));
  }
  void Finish(const Attempt& attempt, v1::Video::State state) {
    clock_.Advance(absl::Seconds(1));
    Outcome outcome{.state = state, .error = {}, .artifacts = {}, .usage = {}};
    outcome.usage.set_device_seconds(12.5);
    if (state == v1::Video::COMPLETED) {
      v1::Artifact& artifact = outcome.artifacts.emplace_back();
      artifact.set_id("video.mp4");
      artifact.set_bytes(123456);
    } else if (state == v1::Video::FAILED) {
      outcome.error = ToRpcStatus(WithErrorInfo(absl::ResourceExhaustedError("the disk is full"), "DISK_FULL"));
    }
    Must(WaitForStatus([&](auto done) { store_.Finish(attempt, outcome, std::move(done)); }));
  }
  void Lose(const Attempt& attempt) {
    Must(WaitFor<v1::Video>(
        [&](auto done) { store_.Requeue(attempt, {.why = "signal 9", .lost_group = true}, std::move(done)); }));
  }
  void Cancel(const JobId& id) {
    Must(WaitFor<v1::Video>([&](auto done) { store_.Cancel(id, std::move(done)); }));
  }
  void Delete(const JobId& id) {
    Must(WaitForStatus([&](auto done) { store_.Delete(id, std::move(done)); }));
  }
  void Sweep() {
    Must(WaitFor<std::vector<JobId>>([&](auto done) { store_.SweepExpired(clock_.Now(), std::move(done)); }));
  }
  void Purge(const JobId& id) {
    Must(WaitForStatus([&](auto done) { store_.Purge(id, std::move(done)); }));
  }
  void PutModel(const std::string& id) {
    v1::ModelInfo model;
    model.set_id(id);
    (*model.mutable_digests())["transformer"] = "0123456789abcdef";
    Must(WaitForStatus([&](auto done) { catalogue_.PutModel(model, std::move(done)); }));
  }
  void AddSpeed(double seconds) {
    v1::RunSpeed run;
    run.add_stages()->set_kind("denoise");
    run.mutable_stages(0)->set_seconds(seconds);
    Must(WaitForStatus([&](auto done) { catalogue_.AddSpeed(kSamplePlace, run, std::move(done)); }));
  }

  void PutInput(const std::string& sha256) {
    const InputRecord input{
        .sha256 = sha256, .bytes = 123, .media_type = "image/png", .expiry = kSampleStart + absl::Hours(24)};
    Must(WaitForStatus([&](auto done) { inputs_.PutInput(input, std::move(done)); }));
  }
  void RemoveInput(const std::string& sha256) {
    Must(WaitForStatus(
        [&](auto done) { inputs_.RemoveInput(sha256, kSampleStart + absl::Hours(24), std::move(done)); }));
  }

 private:
  static void Must(const absl::Status& status) { KINORA_CHECK(status.ok()) << status; }
  template <typename T>
  static T Must(absl::StatusOr<T> value) {
    KINORA_CHECK(value.ok()) << value.status();
    return *std::move(value);
  }

  JobStore& store_;
  SqliteCatalogueStore catalogue_;
  SqliteInputRecords inputs_;
  FakeClock& clock_;
};

void MakeUnfinished(Maker& make) {
  make.Create("queued");
  make.Create("queued, tied");
  make.Lose(make.Claim(make.Create("queued again")));
  make.Run(make.Create("running"));
  const JobId cancelling = make.Create("running, to be cancelled");
  make.Run(cancelling);
  make.Cancel(cancelling);
  v1::VideoEvent finalizing;
  finalizing.mutable_state()->set_state(v1::Video::FINALIZING);
  make.Append(make.Run(make.Create("finalizing")), finalizing);
}

void MakeFinished(Maker& make) {
  make.Finish(make.Run(make.Create("completed")), v1::Video::COMPLETED);
  make.Finish(make.Run(make.Create("failed")), v1::Video::FAILED);
  const JobId lost = make.Create("lost twice");
  make.Lose(make.Claim(lost));
  make.Lose(make.Claim(lost));
  make.Cancel(make.Create("cancelled"));
  make.Finish(make.Run(make.Create("cancelled while it ran")), v1::Video::CANCELLED);
  const JobId deleted = make.Create("deleted");
  make.Finish(make.Claim(deleted), v1::Video::COMPLETED);
  make.Delete(deleted);
}

}  // namespace

const std::vector<SampleJob>& VisibleSampleJobs() {
  static const auto* jobs = new std::vector<SampleJob>{
      {.request_id = "queued", .state = v1::Video::QUEUED},
      {.request_id = "queued, tied", .state = v1::Video::QUEUED},
      {.request_id = "queued again", .state = v1::Video::QUEUED, .attempt = 1, .events = 3},
      {.request_id = "running", .state = v1::Video::RUNNING, .attempt = 1, .events = 4},
      {.request_id = "running, to be cancelled",
       .state = v1::Video::RUNNING,
       .attempt = 1,
       .events = 4,
       .cancel_requested = true},
      {.request_id = "finalizing", .state = v1::Video::FINALIZING, .attempt = 1, .events = 5},
      {.request_id = "completed", .state = v1::Video::COMPLETED, .attempt = 1, .events = 5},
      {.request_id = "failed", .state = v1::Video::FAILED, .attempt = 1, .events = 5},
      {.request_id = "lost twice", .state = v1::Video::FAILED, .attempt = 2, .events = 5},
      {.request_id = "cancelled", .state = v1::Video::CANCELLED, .events = 2},
      {.request_id = "cancelled while it ran", .state = v1::Video::CANCELLED, .attempt = 1, .events = 5},
  };
  return *jobs;
}

void MakeSampleJobs(SqliteJobStore& store, FakeClock& clock) {
  Maker make(store, clock);
  make.PutModel("sample");
  make.PutModel("another");
  const JobId purged = make.Create(kPurgedSampleId, absl::Minutes(1)),
              expired = make.Create("expired", absl::Minutes(1));
  make.Finish(make.Run(purged), v1::Video::COMPLETED);
  make.Finish(make.Run(expired), v1::Video::COMPLETED);
  clock.Advance(absl::Minutes(2));
  make.Sweep();
  make.Purge(purged);
  MakeUnfinished(make);
  MakeFinished(make);
  make.AddSpeed(1.5);
  make.AddSpeed(2.5);
  make.PutInput("to be removed");
  make.PutInput(std::string(64, 'a'));
  make.RemoveInput("to be removed");
}

}  // namespace kinora
