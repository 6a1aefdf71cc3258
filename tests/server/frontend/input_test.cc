// UploadInput and GetInput as a client uses them, and what remains of uploads that end early.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <optional>
#include <thread>

#include "server/common/sha256.h"
#include "server/common/status_details.h"
#include "server/common/timestamps.h"
#include "server/net/grpc_status.h"
#include "tests/server/frontend/frontend_fixture.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/subprocess.h"

namespace kinora {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;
using Header = v1::UploadInputRequest::Header;

// Returns the start of a PNG file and `bytes` bytes that differ from place to place.
std::string Picture(size_t bytes, int seed = 1) {
  std::string out = "\x89PNG\r\n\x1a\n";
  for (uint32_t i = 0, x = seed; i < bytes; ++i) {
    x = x * 1664525 + 1013904223;
    out += static_cast<char>(x >> 24);
  }
  return out;
}

Header HeaderOf(const std::string& bytes, int64_t offset = 0) {
  Header header;
  header.set_sha256(Sha256Hex(bytes));
  header.set_bytes(std::ssize(bytes));
  header.set_offset(offset);
  return header;
}

class InputTest : public FrontendTest {
 protected:
  struct Open {  // an upload that its client has not finished
    std::unique_ptr<grpc::ClientContext> context;
    std::unique_ptr<v1::Input> input;
    std::unique_ptr<grpc::ClientWriter<v1::UploadInputRequest>> writer;
    absl::Status Finish() {
      writer->WritesDone();
      return FromGrpcStatus(writer->Finish());
    }
  };
  Open Begin(const std::string& bytes, size_t sent) {
    Open open{.context = Context(), .input = std::make_unique<v1::Input>()};
    open.writer = stub_->UploadInput(open.context.get(), open.input.get());
    v1::UploadInputRequest request;
    *request.mutable_header() = HeaderOf(bytes);
    open.writer->Write(request);
    request.set_data(bytes.substr(0, sent));
    if (sent > 0) open.writer->Write(request);
    return open;
  }
  void AwaitReceived(const std::string& bytes, size_t received) {
    while (GetInput(Sha256Hex(bytes)).value_or(v1::Input()).received() != static_cast<int64_t>(received)) {
      std::this_thread::yield();
    }
  }
  absl::Status Estimate(const v1::CreateVideoRequest& request) {
    v1::Estimate estimate;
    return FromGrpcStatus(stub_->EstimateVideo(Context().get(), request, &estimate));
  }
  std::string StoredPath(const std::string& bytes) {
    return directory_.File("state/artifacts/inputs/" + Sha256Hex(bytes));
  }
  std::string PartPath(const std::string& bytes) { return directory_.File("state/uploads/" + Sha256Hex(bytes)); }
};

TEST_F(InputTest, IsStoredOnceByItsContentAndAHeaderIsEnoughFromThenOn) {
  Start();
  const std::string bytes = Picture(1'000'000);
  KINORA_ASSERT_OK_AND_ASSIGN(const v1::Input stored, Upload(bytes));
  EXPECT_EQ(stored.id(), Sha256Hex(bytes));
  EXPECT_EQ(stored.sha256(), Sha256Hex(bytes));
  EXPECT_EQ(stored.media_type(), "image/png");
  EXPECT_EQ(stored.bytes(), std::ssize(bytes));
  EXPECT_EQ(stored.received(), std::ssize(bytes));
  EXPECT_EQ(ReadFile(StoredPath(bytes)), bytes);
  EXPECT_FALSE(fs::exists(PartPath(bytes)));
  Open again = Begin(bytes, 0);  // the client's side stays open
  EXPECT_THAT(FromGrpcStatus(again.writer->Finish()), IsOk());
  EXPECT_EQ(again.input->id(), stored.id());
  EXPECT_THAT(GetInput(Sha256Hex(bytes)), IsOkAndHolds(testing::Property(&v1::Input::id, stored.id())));
  auto metrics = Metrics();
  EXPECT_EQ(metrics["kinora_inputs"], 1);
  EXPECT_EQ(metrics["kinora_input_bytes"], bytes.size());
  EXPECT_EQ(metrics["kinora_uploaded_bytes_total"], bytes.size());
  Restart();
  EXPECT_THAT(GetInput(stored.id()), IsOkAndHolds(testing::Property(&v1::Input::id, stored.id())));
  EXPECT_EQ(Metrics()["kinora_inputs"], 1);
}

TEST_F(InputTest, MetadataTellsThatTheHeaderIsRead) {
  Start();
  Open open = Begin(Picture(100), 0);
  open.writer->WaitForInitialMetadata();  // without it, returns at the call's deadline
  EXPECT_THAT(open.Finish(), StatusIs(StatusCode::kInvalidArgument, HasSubstr("header.offset 0")));
}

TEST_F(InputTest, WhatCameIsKeptAndTheUploadGoesOnThere) {
  Start();
  const std::string bytes = Picture(300'000);
  constexpr int64_t kHalf = 150'000;
  Open first = Begin(bytes, kHalf);
  EXPECT_THAT(first.Finish(), StatusIs(StatusCode::kInvalidArgument, HasSubstr("header.offset 150000")));
  KINORA_ASSERT_OK_AND_ASSIGN(const v1::Input part, GetInput(Sha256Hex(bytes)));
  EXPECT_EQ(part.id(), "");
  EXPECT_EQ(part.received(), kHalf);
  EXPECT_EQ(part.bytes(), std::ssize(bytes));
  EXPECT_THAT(Upload(bytes, HeaderOf(bytes, kHalf + 1)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("header.offset: 150000 bytes of it are stored")));
  Header longer = HeaderOf(bytes, kHalf);
  longer.set_bytes(longer.bytes() + 1);
  EXPECT_THAT(Upload(bytes, longer), StatusIs(StatusCode::kInvalidArgument, HasSubstr("header.bytes")));
  Restart();
  KINORA_ASSERT_OK_AND_ASSIGN(const v1::Input whole, Upload(bytes, HeaderOf(bytes, kHalf - 7)));
  EXPECT_EQ(whole.id(), Sha256Hex(bytes));
  EXPECT_EQ(ReadFile(StoredPath(bytes)), bytes);
}

TEST_F(InputTest, AClientThatGoesAwayLeavesWhatItSent) {
  Start();
  const std::string bytes = Picture(100'000);
  Open open = Begin(bytes, 60'000);
  AwaitReceived(bytes, 60'000);
  EXPECT_THAT(Upload(bytes), StatusIs(StatusCode::kAborted, HasSubstr("another call is uploading this content")));
  open.context->TryCancel();
  while (Metrics()["kinora_uploads"] != 0) std::this_thread::yield();
  AwaitReceived(bytes, 60'000);
  absl::StatusOr<v1::Input> whole;
  do {  // the call ends before its upload does
    whole = Upload(bytes, HeaderOf(bytes, 60'000));
  } while (absl::IsAborted(whole.status()));
  EXPECT_THAT(whole, IsOk());
}

TEST_F(InputTest, DataOfAnotherSha256IsRefusedAndNothingStays) {
  Start();
  const std::string bytes = Picture(50'000), other = Picture(50'000, 2);
  EXPECT_THAT(Upload(bytes, HeaderOf(other)),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("header.sha256: the data has " + Sha256Hex(bytes)), HasSubstr("offset 0"))));
  EXPECT_THAT(GetInput(Sha256Hex(other)), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(GetInput(Sha256Hex(bytes)), StatusIs(StatusCode::kNotFound));
  while (Metrics()["kinora_input_bytes"] != 0) std::this_thread::yield();
  EXPECT_FALSE(fs::exists(StoredPath(other)) || fs::exists(PartPath(other)));
}

TEST_F(InputTest, TheDataSaysWhatItIs) {
  Start();
  const std::string png = Picture(10'000), jpeg = "\xff\xd8\xff\xe0" + Picture(20);
  Header header = HeaderOf(jpeg);
  header.set_media_type("image/png");
  EXPECT_THAT(Upload(jpeg, header),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("header.media_type: the data is image/jpeg")));
  header.set_media_type("image/jpeg");
  absl::StatusOr<v1::Input> stored;
  do {
    stored = Upload(jpeg, header);  // removes the rejected data first
  } while (absl::IsAborted(stored.status()));
  ASSERT_THAT(stored, IsOk());
  EXPECT_EQ(stored->media_type(), "image/jpeg");
  // Rejected before all of it has arrived.
  const std::string list = "ffconcat version 1.0\nfile /etc/passwd\n" + std::string(1'000'000, '\n');
  Open open = Begin(list, 8192);
  EXPECT_THAT(FromGrpcStatus(open.writer->Finish()),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("data: is not of a supported type"), HasSubstr("image/webp"))));
}

TEST_F(InputTest, WrongFieldsAreNamed) {
  config_.set_max_input_bytes(1000);
  Start();
  const std::string bytes = Picture(100);
  const auto told = [&](auto change) {
    Header header = HeaderOf(bytes);
    change(header);
    const absl::Status status = Upload(bytes, header).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(told([](Header& header) { header.set_sha256("abc"); }), HasSubstr("header.sha256: must be"));
  EXPECT_THAT(told([](Header& header) { header.set_sha256(std::string(64, 'A')); }), HasSubstr("header.sha256"));
  EXPECT_THAT(told([](Header& header) { header.set_sha256("../" + std::string(61, 'a')); }),
              HasSubstr("header.sha256"));
  EXPECT_THAT(told([](Header& header) { header.set_bytes(0); }), HasSubstr("header.bytes: must be"));
  EXPECT_THAT(told([](Header& header) { header.set_bytes(1001); }), HasSubstr("max_input_bytes, 1000"));
  EXPECT_THAT(told([](Header& header) { header.set_offset(-1); }), HasSubstr("header.offset: must be within"));
  EXPECT_THAT(told([](Header& header) { header.set_offset(1000); }), HasSubstr("header.offset: must be within"));
  EXPECT_THAT(told([](Header& header) { header.set_media_type("image/gif"); }), HasSubstr("header.media_type"));
  EXPECT_THAT(told([](Header& header) { header.set_bytes(50); }), HasSubstr("data: more than the 50 bytes"));
  EXPECT_THAT(GetInput("abc"), StatusIs(StatusCode::kInvalidArgument, HasSubstr("sha256: must be")));
  EXPECT_THAT(GetInput(Sha256Hex("nothing")), StatusIs(StatusCode::kNotFound, HasSubstr("sha256")));
  const auto first = [&](const v1::UploadInputRequest& request) {
    Open open{.context = Context(), .input = std::make_unique<v1::Input>()};
    open.writer = stub_->UploadInput(open.context.get(), open.input.get());
    open.writer->Write(request);
    return open.Finish();
  };
  v1::UploadInputRequest data;
  data.set_data(bytes);
  EXPECT_THAT(first(data), StatusIs(StatusCode::kInvalidArgument, HasSubstr("header: must be sent first")));
  EXPECT_THAT(first({}), StatusIs(StatusCode::kInvalidArgument, HasSubstr("header.sha256")));
}

TEST_F(InputTest, TheQuotaHoldsForWhatIsAnnouncedAndTimeGivesRoomAgain) {
  FakeClock clock;
  clock_ = &clock;
  config_.set_input_quota_bytes(10'000);
  config_.set_max_input_bytes(10'000);
  config_.set_input_ttl_seconds(86400);
  Start();
  const std::string first = Picture(6'000), second = Picture(6'000, 2);
  KINORA_ASSERT_OK_AND_ASSIGN(const v1::Input stored, Upload(first));
  EXPECT_EQ(FromProto(stored.expire_time()), clock.Now() + absl::Hours(24));
  const absl::Status full = Upload(second).status();
  EXPECT_THAT(full, StatusIs(StatusCode::kResourceExhausted, AllOf(HasSubstr("input_quota_bytes (10000)"),
                                                                   HasSubstr("3992 are left"), HasSubstr("24h"))));
  EXPECT_EQ(ErrorReason(full), "INPUT_QUOTA");
  clock.Advance(absl::Hours(20));
  EXPECT_THAT(Upload(first), IsOk());  // keeps it
  clock.Advance(absl::Hours(20));
  EXPECT_THAT(GetInput(stored.id()), IsOk());
  clock.Advance(absl::Hours(5));
  EXPECT_THAT(GetInput(stored.id()), StatusIs(StatusCode::kNotFound));
  while (Upload(second).status().code() == StatusCode::kResourceExhausted) std::this_thread::yield();
  EXPECT_FALSE(fs::exists(StoredPath(first)));
  EXPECT_EQ(ReadFile(StoredPath(second)), second);
  EXPECT_EQ(Metrics()["kinora_input_bytes"], second.size());
  frontend_.reset();  // before its clock
}

TEST_F(InputTest, APartTakesItsRoomForAnHour) {
  FakeClock clock;
  clock_ = &clock;
  config_.set_input_quota_bytes(10'000);
  config_.set_max_input_bytes(10'000);
  Start();
  const std::string part = Picture(8'000), whole = Picture(8'000, 2);
  EXPECT_THAT(Begin(part, 1000).Finish(), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(Upload(whole), StatusIs(StatusCode::kResourceExhausted, HasSubstr("expires in 1h")));
  clock.Advance(absl::Hours(1));
  while (Upload(whole).status().code() == StatusCode::kResourceExhausted) std::this_thread::yield();
  EXPECT_EQ(ReadFile(StoredPath(whole)), whole);
  EXPECT_FALSE(fs::exists(PartPath(part)));
  frontend_.reset();  // before its clock
}

TEST_F(InputTest, AnIdleUploadEndsAndLeavesWhatCame) {
  FakeClock clock;
  clock_ = &clock;
  config_.set_upload_idle_seconds(1);
  Start();
  const std::string bytes = Picture(1000);
  Open open = Begin(bytes, 500);
  AwaitReceived(bytes, 500);
  while (Metrics()["kinora_uploads"] != 0) clock.Advance(absl::Seconds(1));
  EXPECT_THAT(FromGrpcStatus(open.writer->Finish()), StatusIs(StatusCode::kDeadlineExceeded));
  EXPECT_THAT(GetInput(Sha256Hex(bytes)), IsOkAndHolds(testing::Property(&v1::Input::received, 500)));
  frontend_.reset();  // before its clock
}

// Empty chunks would otherwise keep an upload open forever, and occupy its slot.
TEST_F(InputTest, AnEmptyPieceEndsItsUploadAndLeavesWhatCame) {
  config_.set_max_uploads(1);
  Start();
  const std::string bytes = Picture(1000);
  Open open = Begin(bytes, 500);
  v1::UploadInputRequest empty;
  empty.set_data("");
  open.writer->Write(empty);
  EXPECT_THAT(FromGrpcStatus(open.writer->Finish()),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("data: must be 1 byte or more")));
  EXPECT_THAT(GetInput(Sha256Hex(bytes)), IsOkAndHolds(testing::Property(&v1::Input::received, 500)));
  while (Metrics()["kinora_uploads"] != 0) std::this_thread::yield();
  EXPECT_THAT(Upload(bytes, HeaderOf(bytes, 500)), IsOk());
}

TEST_F(InputTest, UploadsOneAfterAnotherNeedOneSlot) {
  config_.set_max_uploads(1);
  Start();
  for (int i = 0; i < 100; ++i) {
    const std::string bytes = Picture(1000, i);
    Header wrong = HeaderOf(bytes);
    wrong.set_media_type("image/jpeg");
    EXPECT_THAT(Upload(bytes, wrong), StatusIs(StatusCode::kInvalidArgument));
    while (absl::IsAborted(Upload(bytes).status())) continue;  // while the rejected data is being removed
    EXPECT_THAT(Upload(bytes), IsOk());                        // by its header alone
  }
}

TEST_F(InputTest, OpenUploadsAreBounded) {
  config_.set_max_uploads(3);
  config_.set_max_uploads_per_client(2);
  WriteFile(directory_.File("tokens"), "first-0123456789\nsecond-0123456789\n");
  ASSERT_EQ(chmod(directory_.File("tokens").c_str(), 0600), 0);
  config_.set_token_file(directory_.File("tokens"));
  Start();
  const std::string bytes = Picture(1000);
  EXPECT_THAT(Upload(bytes), StatusIs(StatusCode::kUnauthenticated));
  EXPECT_THAT(GetInput(Sha256Hex(bytes)), StatusIs(StatusCode::kUnauthenticated));
  token_ = "first-0123456789";
  const std::string one = Picture(1000, 2), two = Picture(1000, 3), three = Picture(1000, 4);
  Open first = Begin(one, 500), second = Begin(two, 500);
  AwaitReceived(one, 500);
  AwaitReceived(two, 500);
  EXPECT_THAT(Upload(bytes), StatusIs(StatusCode::kResourceExhausted, HasSubstr("max_uploads_per_client: 2 uploads")));
  token_ = "second-0123456789";
  Open third = Begin(three, 500);
  AwaitReceived(three, 500);
  EXPECT_THAT(Upload(bytes),
              StatusIs(StatusCode::kResourceExhausted, HasSubstr("max_uploads: 3 uploads are already open")));
  for (Open* open : {&first, &second, &third}) {
    EXPECT_THAT(open->Finish(), StatusIs(StatusCode::kInvalidArgument, HasSubstr("header.offset 500")));
  }
  while (Metrics()["kinora_uploads"] != 0) std::this_thread::yield();
  EXPECT_THAT(GetInput(Sha256Hex(one)), IsOkAndHolds(testing::Property(&v1::Input::received, 500)));
  EXPECT_THAT(Upload(bytes), IsOk());
  token_ = "first-0123456789";  // all tokens of a file have the same rights
  EXPECT_THAT(GetInput(Sha256Hex(bytes)), IsOkAndHolds(testing::Property(&v1::Input::id, Sha256Hex(bytes))));
}

TEST_F(InputTest, AFileThatSomebodyTookAwayIsUploadedAgain) {
  Start();
  const std::string bytes = Picture(5'000);
  ASSERT_THAT(Upload(bytes), IsOk());
  EXPECT_THAT(GetInput(Sha256Hex(bytes)), IsOk());
  fs::resize_file(StoredPath(bytes), 10);
  EXPECT_THAT(GetInput(Sha256Hex(bytes)), StatusIs(StatusCode::kNotFound, HasSubstr("its file is lost")));
  KINORA_ASSERT_OK_AND_ASSIGN(const v1::Input again, Upload(bytes));
  EXPECT_EQ(again.id(), Sha256Hex(bytes));
  EXPECT_EQ(ReadFile(StoredPath(bytes)), bytes);
  EXPECT_EQ(Metrics()["kinora_input_bytes"], bytes.size());
}

TEST_F(InputTest, AFifoInTheFilesPlaceHoldsUpNobody) {
  Start();
  const std::string bytes = Picture(5'000), part = Picture(5'000, 2), other = Picture(5'000, 3);
  ASSERT_THAT(Upload(bytes), IsOk());
  fs::remove(StoredPath(bytes));
  ASSERT_EQ(mkfifo(StoredPath(bytes).c_str(), 0600), 0);
  ASSERT_EQ(mkfifo(PartPath(part).c_str(), 0600), 0);
  EXPECT_THAT(GetInput(Sha256Hex(bytes)), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(Upload(part), StatusIs(StatusCode::kInternal));
  EXPECT_THAT(Upload(other), IsOk());
  EXPECT_THAT(Upload(bytes), IsOk());
  EXPECT_EQ(ReadFile(StoredPath(bytes)), bytes);
  Restart();  // a drain ends, too
}

TEST_F(InputTest, AStartRemovesNothingThatALinkLeadsToAndNothingOfAnotherForm) {
  Start();
  const std::string stray(64, 'f');
  ASSERT_THAT(Upload(Picture(100)), IsOk());
  frontend_->Drain();
  frontend_.reset();
  for (const char* folder : {"state/uploads", "state/artifacts/inputs"}) {
    WriteFile(directory_.File(absl::StrCat(folder, "/notes")), "mine");
    fs::create_directory(directory_.File("elsewhere"));
    WriteFile(directory_.File("elsewhere/" + stray), "mine");
    Start();
    EXPECT_EQ(ReadFile(directory_.File(absl::StrCat(folder, "/notes"))), "mine");
    frontend_->Drain();
    frontend_.reset();
    fs::remove_all(directory_.File(folder));
    fs::create_directory_symlink(directory_.File("elsewhere"), directory_.File(folder));
    Start();
    EXPECT_EQ(ReadFile(directory_.File("elsewhere/" + stray)), "mine");
    frontend_->Drain();
    frontend_.reset();
  }
}

TEST_F(InputTest, FilesWithoutARecordAreRemovedAtTheStart) {
  Start();
  const std::string kept = Picture(100), part = Picture(100, 2);
  ASSERT_THAT(Upload(kept), IsOk());
  Begin(part, 50).Finish().IgnoreError();
  const std::string stray = std::string(64, 'f');
  frontend_->Drain();
  frontend_.reset();
  WriteFile(directory_.File("state/artifacts/inputs/" + stray), "x");
  WriteFile(directory_.File("state/artifacts/inputs/" + Sha256Hex(part)),
            "put, and killed before its record was stored");
  WriteFile(directory_.File("state/uploads/" + stray), "x");
  Start();
  EXPECT_EQ(ReadFile(StoredPath(kept)), kept);
  EXPECT_EQ(ReadFile(PartPath(part)), part.substr(0, 50));
  EXPECT_FALSE(fs::exists(StoredPath(part)) || fs::exists(directory_.File("state/artifacts/inputs/" + stray)) ||
               fs::exists(directory_.File("state/uploads/" + stray)));
}

TEST_F(InputTest, ADiskWithoutRoomRefusesTheHeader) {
  config_.set_min_free_bytes(int64_t{1} << 60);
  Start();
  const absl::Status full = Upload(Picture(100)).status();
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrorReason(full), "DISK_FULL");
}

TEST_F(InputTest, AJobNamesWhatIsStoredAndItsRunSaysWhere) {
  Start();
  const auto worker = StartWorker();
  const std::string bytes = Picture(5'000), id = Sha256Hex(bytes);
  v1::CreateVideoRequest request = Request();
  request.set_request_id("mine");
  request.mutable_generation()->add_conditions()->mutable_image()->set_input_id(id);
  for (const absl::Status& refused : {Create(request).status(), Estimate(request)}) {
    EXPECT_THAT(refused, StatusIs(StatusCode::kInvalidArgument,
                                  HasSubstr("generation.conditions[0].image.input_id: no input with this id")));
  }
  Begin(bytes, 100).Finish().IgnoreError();
  EXPECT_THAT(Create(request), StatusIs(StatusCode::kInvalidArgument, HasSubstr("100 of 5008 bytes have arrived")));
  EXPECT_THAT(Metrics()["kinora_queue_depth{priority=\"0\"}"], 0);
  absl::StatusOr<v1::Input> stored;
  do stored = Upload(bytes);
  while (absl::IsAborted(stored.status()));  // until the previous call has released it
  ASSERT_THAT(stored, IsOk());
  KINORA_ASSERT_OK_AND_ASSIGN(const v1::Video video, Create(request));
  const v1::Run run = worker->AwaitRun();
  EXPECT_EQ(run.video_id(), video.id());
  EXPECT_EQ(run.input_paths().at(id), "inputs/" + id);
  fs::remove(StoredPath(bytes));
  KINORA_ASSERT_OK_AND_ASSIGN(const v1::Video again, Create(request));  // same answer as before
  EXPECT_EQ(again.id(), video.id());
  request.set_request_id("another");
  EXPECT_THAT(Create(request), StatusIs(StatusCode::kInvalidArgument, HasSubstr("its file is lost")));
}

// Kills the actual program at arbitrary moments. Incomplete uploads resume where the next process says.
class KilledFrontend : public InputTest {
 protected:
  void Serve() {
    const std::string address = "unix:" + directory_.File("api.sock");
    process_.emplace(std::vector<std::string>{KINORA_FRONTEND_BINARY, "--state-directory", directory_.File("state"),
                                              "--address", address, "--http-address", "", "--min-free-bytes=0"});
    stub_ = v1::VideoGeneration::NewStub(grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), [] {
      grpc::ChannelArguments arguments;
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // does not wait for the previous process
      return arguments;
    }()));
    v1::ListVideosResponse reply;
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    ASSERT_TRUE(stub_->ListVideos(&context, {}, &reply).ok()) << process_->ErrSoFar();
  }

  std::optional<Subprocess> process_;
};

TEST_F(KilledFrontend, LosesNothingThatItAcknowledgedAndStoresNothingElse) {
  int64_t resumed = 0;
  for (int life = 0; life < 8; ++life) {
    SCOPED_TRACE(life);
    const bool completes = life >= 5;  // the last ones are killed on completion, which takes longer for more bytes
    const int64_t bytes_sent = completes ? 40'000'000 : 3'000'000;
    const std::string bytes = Picture(bytes_sent, life + 1);
    Serve();
    // The later the life, the more bytes are received before the kill. The last byte comes only in lives that complete.
    absl::StatusOr<v1::Input> stored;
    const std::string sent = completes ? bytes : bytes.substr(0, bytes.size() - 1);
    std::thread client([&] { stored = Upload(sent, HeaderOf(bytes), 100'000); });
    int64_t acknowledged = 0;
    while (acknowledged < (completes ? std::ssize(bytes) : life * bytes_sent / 5)) {
      acknowledged = std::max(acknowledged, GetInput(Sha256Hex(bytes)).value_or(v1::Input()).received());
    }
    kill(process_->pid(), SIGKILL);
    client.join();
    process_->Wait();
    Serve();
    const v1::Input found = GetInput(Sha256Hex(bytes)).value_or(v1::Input());
    EXPECT_TRUE(!stored.ok() || found.id() == Sha256Hex(bytes));
    EXPECT_TRUE(found.id().empty() || ReadFile(StoredPath(bytes)) == bytes);
    EXPECT_GE(found.received(), acknowledged);
    resumed += found.received() > 0 && found.id().empty();
    KINORA_ASSERT_OK_AND_ASSIGN(const v1::Input input,
                                Upload(bytes, HeaderOf(bytes, found.id().empty() ? found.received() : 0)));
    EXPECT_EQ(input.id(), Sha256Hex(bytes));
    EXPECT_EQ(ReadFile(StoredPath(bytes)), bytes);
    kill(process_->pid(), SIGKILL);
    process_->Wait();
  }
  EXPECT_GT(resumed, 2);  // otherwise the test proves nothing
}

}  // namespace
}  // namespace kinora
