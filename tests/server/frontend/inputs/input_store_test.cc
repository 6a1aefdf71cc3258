#include "server/frontend/inputs/input_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>

#include "absl/synchronization/notification.h"
#include "server/common/directory_artifact_store.h"
#include "server/common/sha256.h"
#include "server/common/status_details.h"
#include "server/frontend/inputs/directory_parts.h"
#include "server/frontend/inputs/sqlite_input_records.h"
#include "server/frontend/jobs/sqlite_job_store.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/full_disk.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"
#include "tests/testing/wait_for.h"

namespace kinora {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;
using Header = v1::UploadInputRequest::Header;

const std::string kPng = "\x89PNG\r\n\x1a\n" + std::string(1000, 'p');
const std::string kWav = "RIFFsizeWAVEfmt " + std::string(1000, 's');

// Parts of a folder whose Commit waits for the test.
class SlowParts : public InputParts {
 public:
  explicit SlowParts(std::unique_ptr<InputParts> parts) : parts_(std::move(parts)) {}
  absl::Status Begin(const std::string& sha256, int64_t bytes) override { return parts_->Begin(sha256, bytes); }
  absl::Status Write(const std::string& sha256, std::string_view data, int64_t& at) override {
    return parts_->Write(sha256, data, at);
  }
  absl::StatusOr<std::string> Head(const std::string& sha256) override { return parts_->Head(sha256); }
  int64_t Bytes(const std::string& sha256) const override { return parts_->Bytes(sha256); }
  void Remove(const std::string& sha256) override { parts_->Remove(sha256); }
  absl::StatusOr<StoredFile> Commit(const std::string& sha256, const std::string& key) override {
    if (go_on != nullptr) go_on->WaitForNotification();
    return parts_->Commit(sha256, key);
  }
  int64_t Reconcile(const std::vector<InputRecord>& records) override { return parts_->Reconcile(records); }

  absl::Notification* go_on = nullptr;

 private:
  const std::unique_ptr<InputParts> parts_;
};

class InputStoreTest : public testing::Test {
 protected:
  InputStoreTest() {
    rules_ = {.max_bytes = 1 << 20, .quota = 10 << 20, .ttl = absl::Hours(24)};
    rules_.check_disk = [this](int64_t bytes) {
      asked_for_ = bytes;
      return absl::OkStatus();
    };
  }
  ~InputStoreTest() override { Close(); }

  void Open() {
    directory_store_ = *DirectoryArtifactStore::At(directory_.File("artifacts"));
    slow_ = std::make_unique<SlowParts>(*DirectoryParts::Open(directory_.File("uploads"), *directory_store_));
    if (jobs_ == nullptr) {
      jobs_ = *SqliteJobStore::Open(":memory:", {}, clock_, [](const v1::VideoEvent&) {});
      records_ = MakeRecords();
    }
    auto opened = InputStore::Open(*records_, *jobs_, *directory_store_, *slow_, clock_, metrics_, rules_);
    ASSERT_THAT(opened, IsOk());
    store_ = *std::move(opened);
  }
  virtual std::unique_ptr<InputRecords> MakeRecords() { return std::make_unique<SqliteInputRecords>(jobs_->file()); }
  void Close() {
    if (store_ == nullptr) return;
    store_->Stop();
    jobs_->Flush();
    store_.reset();
  }

  static Header HeaderOf(const std::string& bytes, int64_t offset = 0) {
    Header header;
    header.set_sha256(Sha256Hex(bytes));
    header.set_bytes(std::ssize(bytes));
    header.set_offset(offset);
    return header;
  }
  absl::StatusOr<std::shared_ptr<InputStore::Begun>> Begin(const Header& header) {
    return WaitFor<std::shared_ptr<InputStore::Begun>>([&](Done<std::shared_ptr<InputStore::Begun>> done) {
      store_->Begin(header, [done = std::move(done)](absl::StatusOr<InputStore::Begun> begun) mutable {
        if (!begun.ok()) return done(begun.status());
        done(std::make_shared<InputStore::Begun>(*std::move(begun)));
      });
    });
  }
  static absl::Status Append(InputStore::Begun& begun, const std::string& data) {
    return WaitForStatus([&](Finished done) { begun.upload->Append(data, std::move(done)); });
  }
  static absl::StatusOr<v1::Input> Complete(InputStore::Begun& begun) {
    return WaitFor<v1::Input>([&](Done<v1::Input> done) { begun.upload->Complete(std::move(done)); });
  }
  absl::StatusOr<v1::Input> Find(const std::string& bytes) {
    return WaitFor<v1::Input>([&](Done<v1::Input> done) { store_->Find(Sha256Hex(bytes), std::move(done)); });
  }
  std::string Store(const std::string& bytes) {
    const auto begun = Begin(HeaderOf(bytes));
    KINORA_CHECK(begun.ok()) << begun.status();
    KINORA_CHECK(Append(**begun, bytes).ok());
    const auto input = Complete(**begun);
    KINORA_CHECK(input.ok()) << input.status();
    return input->id();
  }
  absl::Status Require(const v1::Generation& generation) {
    return WaitForStatus([&](Finished done) { store_->Require(InputRefsOf(generation), std::move(done)); });
  }
  // Waits until every due sweep has finished removing files.
  void Sweep() {
    for (int i = 0; i < 4; ++i) {
      clock_.Advance(rules_.sweep_interval);
      Find(kPng).IgnoreError();
      jobs_->Flush();
      Find(kPng).IgnoreError();
      jobs_->Flush();
    }
    Find(kPng).IgnoreError();
  }
  std::string StoredPath(const std::string& bytes) { return directory_.File("artifacts/inputs/" + Sha256Hex(bytes)); }

  TemporaryDirectory directory_;
  FakeClock clock_;
  MetricsPage page_;
  FrontendMetrics metrics_{page_.registry()};
  std::unique_ptr<DirectoryArtifactStore> directory_store_;
  std::unique_ptr<SlowParts> slow_;
  std::unique_ptr<SqliteJobStore> jobs_;
  std::unique_ptr<InputRecords> records_;
  InputRules rules_;
  std::unique_ptr<InputStore> store_;
  int64_t asked_for_ = 0;
};

v1::Generation FirstImage(const std::string& id) {
  v1::Generation generation;
  generation.add_conditions()->mutable_image()->set_input_id(id);
  return generation;
}

TEST_F(InputStoreTest, EveryFieldThatNamesNoUsableInputIsTold) {
  Open();
  const std::string png = Store(kPng), wav = Store(kWav);
  const std::string part = "\x89PNG\r\n\x1a\n" + std::string(50, 'q');
  const auto begun = Begin(HeaderOf(part));
  ASSERT_THAT(Append(**begun, part.substr(0, 20)), IsOk());

  v1::Generation good = FirstImage(png);
  good.mutable_audio()->mutable_media()->set_input_id(wav);
  EXPECT_THAT(Require(good), IsOk());

  v1::Generation bad = FirstImage(wav);
  bad.add_conditions()->mutable_clip()->set_input_id("kite.mp4");
  bad.mutable_retake()->mutable_clip()->set_input_id(Sha256Hex(part));
  bad.mutable_audio()->mutable_media()->set_input_id(png);
  const absl::Status refused = Require(bad);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  const std::string told(refused.message());
  EXPECT_THAT(told, HasSubstr("generation.conditions[0].image.input_id: is audio/wav, but must be an image"));
  EXPECT_THAT(told, HasSubstr("generation.conditions[1].clip.input_id: no input with this id is stored"));
  EXPECT_THAT(told, AllOf(HasSubstr("generation.retake.clip.input_id: its upload is incomplete: 20 of 58 bytes"),
                          HasSubstr("header.offset 20")));
  EXPECT_THAT(told, HasSubstr("generation.audio.media.input_id: is image/png, but must be a sound"));
  fs::remove(StoredPath(kPng));
  EXPECT_THAT(Require(FirstImage(png)), StatusIs(StatusCode::kInvalidArgument, HasSubstr("its file is lost")));
}

TEST_F(InputStoreTest, WhatAJobNamesStaysUntilTheJobHasEnded) {
  Open();
  const std::string id = Store(kPng);
  v1::CreateVideoRequest request;
  *request.mutable_generation() = FirstImage(id);
  const auto created =
      WaitFor<Created>([&](Done<Created> done) { jobs_->Create(request, request.generation(), 0, std::move(done)); });
  ASSERT_THAT(created, IsOk());
  clock_.Advance(absl::Hours(30));
  Sweep();
  EXPECT_TRUE(fs::exists(StoredPath(kPng)));
  EXPECT_THAT(Find(kPng), IsOk());
  EXPECT_THAT(Require(FirstImage(id)), IsOk());
  Close();
  Open();  // as after a frontend restart
  Sweep();
  EXPECT_TRUE(fs::exists(StoredPath(kPng)));
  ASSERT_THAT(WaitFor<v1::Video>([&](auto done) { jobs_->Cancel(created->video.id(), std::move(done)); }).status(),
              IsOk());
  Sweep();
  EXPECT_FALSE(fs::exists(StoredPath(kPng)));
  EXPECT_THAT(Find(kPng), StatusIs(StatusCode::kNotFound));
}

TEST_F(InputStoreTest, WhatARequestNamesStaysWhileItBecomesAJob) {
  Open();
  const std::string id = Store(kPng);
  clock_.Advance(absl::Hours(24) - absl::Seconds(1));
  EXPECT_THAT(Require(FirstImage(id)), IsOk());
  Sweep();
  EXPECT_TRUE(fs::exists(StoredPath(kPng)));
  clock_.Advance(kNamedFor);
  Sweep();
  EXPECT_FALSE(fs::exists(StoredPath(kPng)));
}

TEST_F(InputStoreTest, HasAnIdOnceItsRecordIsDurable) {
  Open();
  const auto begun = Begin(HeaderOf(kPng));
  ASSERT_THAT(Append(**begun, kPng), IsOk());
  absl::Notification go_on, completed;
  jobs_->Purge("nobody", [&](const absl::Status&) { go_on.WaitForNotification(); });  // later operations wait for it
  absl::StatusOr<v1::Input> input;
  (*begun)->upload->Complete([&](absl::StatusOr<v1::Input> told) {
    input = std::move(told);
    completed.Notify();
  });
  while (!fs::exists(StoredPath(kPng))) std::this_thread::yield();
  for (int i = 0; i < 100; ++i) {
    const absl::StatusOr<v1::Input> found = Find(kPng);
    ASSERT_THAT(found, IsOk());
    EXPECT_EQ(found->id(), "");
  }
  go_on.Notify();
  completed.WaitForNotification();
  ASSERT_THAT(input, IsOk());
  EXPECT_EQ(Find(kPng)->id(), Sha256Hex(kPng));
}

TEST_F(InputStoreTest, OneThatCompletesForLongHoldsUpNobody) {
  Open();
  const auto begun = Begin(HeaderOf(kPng));
  ASSERT_THAT(Append(**begun, kPng), IsOk());
  absl::Notification go_on, completed;
  slow_->go_on = &go_on;
  (*begun)->upload->Complete([&](const absl::StatusOr<v1::Input>&) { completed.Notify(); });
  EXPECT_THAT(Find(kPng), IsOk());
  const auto other = Begin(HeaderOf(kWav));
  ASSERT_THAT(other, IsOk());
  EXPECT_THAT(Append(**other, kWav), IsOk());
  EXPECT_FALSE(completed.HasBeenNotified());
  go_on.Notify();
  completed.WaitForNotification();
}

TEST_F(InputStoreTest, APartHasItsHourFromItsLastDataAlsoAfterARestart) {
  Open();
  {
    const auto begun = Begin(HeaderOf(kPng));
    ASSERT_THAT(Append(**begun, kPng.substr(0, 100)), IsOk());
    clock_.Advance(absl::Minutes(50));
    ASSERT_THAT(Append(**begun, kPng.substr(100, 100)), IsOk());
  }
  Close();
  clock_.Advance(absl::Minutes(30));
  Open();
  Sweep();
  const auto found = Find(kPng);
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->received(), 200);
  clock_.Advance(absl::Minutes(30));
  Sweep();
  EXPECT_THAT(Find(kPng), StatusIs(StatusCode::kNotFound));
}

TEST_F(InputStoreTest, WhatOpenUploadsHaveStillToWriteIsCounted) {
  Open();
  auto first = Begin(HeaderOf(kPng));
  EXPECT_EQ(asked_for_, std::ssize(kPng));
  ASSERT_THAT(Append(**first, kPng.substr(0, 400)), IsOk());
  {
    const auto second = Begin(HeaderOf(kWav));
    ASSERT_THAT(second, IsOk());
    EXPECT_EQ(asked_for_, std::ssize(kPng) - 400 + std::ssize(kWav));
    first->reset();
    ASSERT_THAT(Append(**second, kWav), IsOk());
  }
  const auto again = Begin(HeaderOf(kPng, 100));
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(asked_for_, std::ssize(kPng) - 100);
}

TEST_F(InputStoreTest, AFileInItsPlaceWithoutAWordOfItIsAPartThatIsComplete) {
  Open();
  const std::string uploads = directory_.File("uploads/" + Sha256Hex(kPng));
  ASSERT_THAT(Append(**Begin(HeaderOf(kPng)), kPng), IsOk());
  Close();
  fs::create_directory(directory_.File("artifacts/inputs"));
  fs::rename(uploads, StoredPath(kPng));  // as if the process had been killed before it stored the record
  Open();
  EXPECT_EQ(Find(kPng)->received(), std::ssize(kPng));
  const auto begun = Begin(HeaderOf(kPng, std::ssize(kPng)));
  ASSERT_THAT(begun, IsOk());
  const auto input = Complete(**begun);
  ASSERT_THAT(input, IsOk());
  EXPECT_EQ(input->id(), Sha256Hex(kPng));
}

TEST(FullInputStore, SaysThatTheDiskIsFull) {
  TemporaryDirectory directory;
  const auto body = [&]() -> std::string {
    const auto artifacts = *DirectoryArtifactStore::At(directory.File("artifacts"));
    const auto folder = *DirectoryParts::Open(directory.path(), *artifacts);
    InputParts& parts = *folder;
    const std::string sha256(64, 'a');
    int64_t at = 0;
    if (!parts.Begin(sha256, 0).ok()) return "no file";
    const absl::Status status = parts.Write(sha256, std::string(1 << 20, 'x'), at);
    if (!absl::IsResourceExhausted(status)) return status.ToString();
    if (at == 0 || at != parts.Bytes(sha256)) return "what could be written is not counted";
    return ErrorReason(status) == "DISK_FULL" ? "" : "its reason is " + ErrorReason(status);
  };
  const SmallDiskResult result = OnSmallDisk(directory.path(), 256 << 10, body);
  if (result == SmallDiskResult::kNotPermitted) GTEST_SKIP() << "no mount namespaces here";
  EXPECT_EQ(result, SmallDiskResult::kPassed);
}

// Records that other frontends put, too, in a database that can be away.
class SharedRecords : public SqliteInputRecords {
 public:
  using SqliteInputRecords::SqliteInputRecords;

  bool is_shared() const override { return true; }
  void RemoveInput(const std::string& sha256, absl::Time now, Finished done) override {
    if (is_away) return done(absl::UnavailableError("the database is away"));
    FindInputs(
        {sha256}, [this, sha256, now, done = std::move(done)](absl::StatusOr<std::vector<InputRecord>> found) mutable {
          const bool stays = !found->empty() && !found->front().media_type.empty() && found->front().expiry > now;
          if (stays) return done(absl::AbortedError("another frontend has put it"));
          SqliteInputRecords::RemoveInput(sha256, now, std::move(done));
        });
  }
  void FindInputs(std::vector<std::string> keys, Done<std::vector<InputRecord>> done) override {
    if (is_away) return done(absl::UnavailableError("the database is away"));
    SqliteInputRecords::FindInputs(std::move(keys), std::move(done));
  }

  std::atomic<bool> is_away = false;
};

class SharedInputsTest : public InputStoreTest {
 protected:
  std::unique_ptr<InputRecords> MakeRecords() override {
    auto records = std::make_unique<SharedRecords>(jobs_->file());
    shared_ = records.get();
    return records;
  }
  void StoreElsewhere(const std::string& bytes) {
    WriteFile(directory_.File("elsewhere"), bytes);
    ASSERT_THAT(directory_store_->Put(InputKey(Sha256Hex(bytes)), directory_.File("elsewhere")), IsOk());
    const InputRecord record{.sha256 = Sha256Hex(bytes),
                             .bytes = std::ssize(bytes),
                             .media_type = "image/png",
                             .expiry = clock_.Now() + absl::Hours(1)};
    ASSERT_THAT(WaitForStatus([&](Finished done) { records_->PutInput(record, std::move(done)); }), IsOk());
  }
  static v1::Generation With(const std::string& bytes) {
    v1::Generation generation;
    generation.add_conditions()->mutable_image()->set_input_id(Sha256Hex(bytes));
    return generation;
  }

  SharedRecords* shared_ = nullptr;
};

TEST_F(SharedInputsTest, WhileTheDatabaseIsAwayNobodyKnowsWhatOthersHaveStored) {
  Open();
  ASSERT_THAT(Find(kPng), StatusIs(StatusCode::kNotFound));  // the first sweep, which lists what is stored, is over
  StoreElsewhere(kPng);
  shared_->is_away = true;
  EXPECT_THAT(Require(With(kPng)), StatusIs(StatusCode::kUnavailable));
  EXPECT_THAT(Find(kPng), StatusIs(StatusCode::kUnavailable));
  shared_->is_away = false;
  EXPECT_THAT(Require(With(kPng)), IsOk());
  shared_->is_away = true;
  EXPECT_THAT(Require(With(kPng)), IsOk()) << "it is known now";
}

TEST_F(SharedInputsTest, AnUploadThatFailedHereDoesNotHideOneThatSucceededElsewhere) {
  Open();
  {
    const auto begun = Begin(HeaderOf(kPng));
    ASSERT_THAT(begun, IsOk());
    std::string other = kPng;
    other.back() = 'x';
    ASSERT_THAT(Append(**begun, other), IsOk());
    EXPECT_THAT(Complete(**begun), StatusIs(StatusCode::kInvalidArgument)) << "other bytes, so it is discarded";
    shared_->is_away = true;
  }
  EXPECT_THAT(Find(kPng), StatusIs(StatusCode::kUnavailable)) << "its removal has failed by now";
  shared_->is_away = false;
  StoreElsewhere(kPng);
  EXPECT_THAT(Require(With(kPng)), IsOk());
  clock_.Advance(rules_.sweep_interval);  // the removal is tried again
  EXPECT_THAT(Require(With(kPng)), IsOk());
  EXPECT_EQ(Find(kPng)->received(), std::ssize(kPng));
}

}  // namespace
}  // namespace kinora
