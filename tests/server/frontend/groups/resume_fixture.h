// The dispatcher with a directory of artifacts, in which a test stores the resume points of its runs.
#ifndef KINORA_TESTS_SERVER_FRONTEND_GROUPS_RESUME_FIXTURE_H_
#define KINORA_TESTS_SERVER_FRONTEND_GROUPS_RESUME_FIXTURE_H_

#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/common/directory_artifact_store.h"
#include "server/frontend/groups/resume_files.h"
#include "tests/server/frontend/groups/dispatcher_fixture.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {

class ResumeFixture : public DispatcherTest {
 protected:
  ResumeFixture() : DispatcherTest(/*max_lost_groups=*/9) {
    files_ = *DirectoryArtifactStore::At(directory_.File("artifacts"));
    resume_files_ = std::make_unique<ResumeFiles>(*files_, clock_, loops_.Make());
    points_ = resume_files_.get();
    StartDispatcher();
  }
  ~ResumeFixture() override {
    dispatcher_.reset();
    store_->Flush();
  }

  static v1::ResumePoint PointAt(int step) {
    v1::ResumePoint point;
    point.set_id(absl::StrCat("resume-", step));
    point.set_bytes(10);
    point.set_stage(v1::STAGE_DENOISE);
    point.set_step(step);
    point.set_total_steps(8);
    point.set_fraction(0.125 * step);
    return point;
  }
  static std::string KeyOf(const v1::Run& run, int step) {
    return absl::StrCat(run.artifact_key(), "/", PointAt(step).id());
  }
  bool IsThere(const std::string& key) { return std::filesystem::exists(absl::StrCat(files_->root(), "/", key)); }
  void Write(const std::string& key, const std::string& bytes = "ten bytes.") {
    WriteFile(directory_.File("x"), bytes);
    ASSERT_THAT(files_->Put(key, directory_.File("x")), IsOk());
  }
  void Mark(const std::shared_ptr<RecordingLink>& link, const v1::Run& run, const v1::ResumePoint& point) {
    v1::WorkerMessage message;
    message.mutable_resume()->set_video_id(run.video_id());
    message.mutable_resume()->set_attempt(run.attempt());
    *message.mutable_resume()->mutable_point() = point;
    dispatcher_->Receive(link, message);
  }
  // As a worker does it that shares the directory.
  void StorePoint(const std::shared_ptr<RecordingLink>& link, const v1::Run& run, int step) {
    Write(KeyOf(run, step));
    Mark(link, run, PointAt(step));
  }
  v1::Video Get(const JobId& id) {
    return *WaitFor<v1::Video>([&](auto done) { store_->Get(id, std::move(done)); });
  }
  // The step of the job's point once all marks have been stored; 0: it has none.
  int StoredStep(const JobId& id) {
    Settle();
    return Get(id).resume_point().step();
  }
  void Stage(const std::shared_ptr<RecordingLink>& link, const v1::Run& run, v1::StageKind stage,
             double remaining_seconds = -1) {
    v1::WorkerMessage message;
    message.mutable_stage()->set_video_id(run.video_id());
    message.mutable_stage()->set_attempt(run.attempt());
    message.mutable_stage()->set_stage(stage);
    message.mutable_stage()->set_remaining_seconds(remaining_seconds);
    dispatcher_->Receive(link, message);
  }
  void Resolve(const std::shared_ptr<RecordingLink>& link, const v1::Run& run, const v1::Resolved& resolved) {
    v1::WorkerMessage message;
    message.mutable_resolved()->set_video_id(run.video_id());
    message.mutable_resolved()->set_attempt(run.attempt());
    *message.mutable_resolved()->mutable_resolved() = resolved;
    dispatcher_->Receive(link, message);
  }
  void Lose(const std::shared_ptr<RecordingLink>& link) { dispatcher_->Disconnect(link, absl::OkStatus()); }
  void Leave(const std::shared_ptr<RecordingLink>& link) {
    v1::WorkerMessage leaving;
    leaving.mutable_heartbeat()->set_phase("leaving");
    dispatcher_->Receive(link, leaving);
  }

  TemporaryDirectory directory_;
  std::unique_ptr<DirectoryArtifactStore> files_;
  std::unique_ptr<ResumeFiles> resume_files_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_SERVER_FRONTEND_GROUPS_RESUME_FIXTURE_H_
