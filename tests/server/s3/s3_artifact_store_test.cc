#include "server/s3/s3_artifact_store.h"

#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/status_macros.h"
#include "server/common/sha256.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/s3_server.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;
using testing::UnorderedElementsAreArray;

// A client of a place of its own in the bucket of the test's server.
struct Client {
  Client(const S3Options& options, const AwsKeys& keys, Clocks clocks = {})
      : credentials("eu-central-1", http, Clock::Real(),
                    [keys](const char* name) {
                      if (std::string_view(name) == "AWS_ACCESS_KEY_ID") return keys.id;
                      return std::string_view(name) == "AWS_SECRET_ACCESS_KEY" ? keys.secret : "";
                    }),
        calls(LocateBucket(options).value(), http, credentials, clocks,
              [this](const S3Request& request) {
                absl::MutexLock lock(&mu);
                ++seen[absl::StrCat(request.operation, " ", request.code)];
              },
              {.first_wait = absl::Milliseconds(5), .patience = absl::Seconds(2)}),
        store(calls, spool.path(), {.multipart_from = 6 << 20, .part = 5 << 20}) {}

  int Seen(const std::string& what) {
    absl::MutexLock lock(&mu);
    return seen[what];
  }

  TemporaryDirectory spool;
  HttpClient http;
  AwsCredentials credentials;
  absl::Mutex mu;
  std::map<std::string, int> seen ABSL_GUARDED_BY(mu);
  S3Calls calls;
  S3ArtifactStore store;
};

class S3StoreTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!S3Server::IsInstalled()) GTEST_SKIP() << "moto is not installed";
    server_ = &S3Server::Shared();
    server_->ClearFaults();
    place_ = server_->NewPlace();
    client_ = std::make_unique<Client>(place_, server_->keys());
  }
  void TearDown() override {
    if (server_ != nullptr) server_->ClearFaults();
  }

  S3ArtifactStore& store() { return client_->store; }
  absl::StatusOr<StoredFile> Put(const std::string& key, const std::string& bytes) {
    KINORA_ASSIGN_OR_RETURN(const auto staged, store().Begin(key));
    KINORA_RETURN_IF_ERROR(staged->Append(bytes.substr(0, bytes.size() / 2)));
    KINORA_RETURN_IF_ERROR(staged->Append(bytes.substr(bytes.size() / 2)));
    return staged->Commit();
  }
  std::string Get(const std::string& key) {
    std::string bytes;
    while (true) {
      const auto piece = store().Read(key, std::ssize(bytes), store().piece_bytes());
      if (!piece.ok()) return piece.status().ToString();
      bytes += piece->data;
      if (std::ssize(bytes) == piece->size) return bytes;
    }
  }
  void Fault(const std::string& match, const std::string& rest) {
    server_->SetFaults(absl::StrCat(R"([{"match": ")", match, R"(", )", rest, "}]"));
  }

  S3Server* server_ = nullptr;
  S3Options place_;
  std::unique_ptr<Client> client_;
};

// Bytes that differ from each other everywhere.
std::string Bytes(size_t count) {
  std::string bytes(count, '\0');
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(i * 2654435761u >> 13);
  return bytes;
}

TEST_F(S3StoreTest, AStagedFileHasItsKeyOnceItIsCommitted) {
  EXPECT_THAT(store().Check(), IsOk());
  KINORA_ASSERT_OK_AND_ASSIGN(const auto staged, store().Begin("job/1/video.mp4"));
  EXPECT_THAT(staged->Append("hello "), IsOk());
  EXPECT_THAT(staged->Append("world"), IsOk());
  EXPECT_THAT(store().Size("job/1/video.mp4"), StatusIs(absl::StatusCode::kNotFound));
  KINORA_ASSERT_OK_AND_ASSIGN(const StoredFile stored, staged->Commit());
  EXPECT_EQ(stored.bytes, 11);
  EXPECT_EQ(stored.sha256, "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9");  // from sha256sum
  EXPECT_THAT(store().Size("job/1/video.mp4"), IsOkAndHolds(11));
  const auto read = [&](int64_t offset, int64_t limit) {
    const auto piece = store().Read("job/1/video.mp4", offset, limit);
    return piece.ok() && piece->size == 11 ? piece->data : piece.status().ToString();
  };
  EXPECT_EQ(read(0, 5), "hello");
  EXPECT_EQ(read(6, 100), "world");
  EXPECT_EQ(read(11, 100), "");
  EXPECT_EQ(read(99, 100), "");
  EXPECT_THAT(store().Read("job/1/none", 0, 1), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(S3StoreTest, AnEmptyFileIsAFile) {
  KINORA_ASSERT_OK_AND_ASSIGN(const StoredFile stored, Put("a/empty", ""));
  EXPECT_EQ(stored.sha256, kEmptySha256);
  EXPECT_EQ(Get("a/empty"), "");
}

TEST_F(S3StoreTest, KeysAreListedAndDeletedByJob) {
  for (const char* key : {"job/1/a", "job/2/b", "job2/1/c", "inputs/x"}) EXPECT_THAT(Put(key, key), IsOk());
  EXPECT_THAT(store().Keys("job"), IsOkAndHolds(UnorderedElementsAre("job/1/a", "job/2/b")));
  EXPECT_THAT(store().Keys("job/2"), IsOkAndHolds(ElementsAre("job/2/b")));
  EXPECT_THAT(store().Keys("none"), IsOkAndHolds(IsEmpty()));
  EXPECT_THAT(store().FirstParts(), IsOkAndHolds(UnorderedElementsAre("job", "job2", "inputs")));
  EXPECT_THAT(store().Delete("job"), IsOk());
  EXPECT_THAT(store().Delete("job"), IsOk());  // a second time
  EXPECT_THAT(store().Size("job/1/a"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(Get("job2/1/c"), "job2/1/c");
  EXPECT_THAT(store().Delete("inputs/x"), IsOk());
  EXPECT_THAT(store().FirstParts(), IsOkAndHolds(ElementsAre("job2")));
}

TEST_F(S3StoreTest, ListsOfSeveralPagesAreRead) {
  const std::vector<std::string> keys = {"job/1/0", "job/1/1", "job/1/2", "job/1/3", "job/1/4"};
  for (const std::string& key : keys) EXPECT_THAT(Put(key, key), IsOk());
  EXPECT_THAT(store().Keys("job"), IsOkAndHolds(UnorderedElementsAreArray(keys)));
  EXPECT_EQ(client_->Seen("ListObjectsV2 OK"), 2) << "the server has three in a page";
  EXPECT_THAT(store().Delete("job"), IsOk());
  EXPECT_THAT(store().Keys("job"), IsOkAndHolds(IsEmpty()));
}

TEST_F(S3StoreTest, KeysCannotLeaveThePrefix) {
  for (const char* key : {"", "/a", "../a", "a/../b", "a//b", ".a", "a\nb", "ä"}) {
    EXPECT_THAT(store().Begin(key).status(), StatusIs(absl::StatusCode::kInvalidArgument)) << key;
    EXPECT_THAT(store().Read(key, 0, 1), StatusIs(absl::StatusCode::kInvalidArgument)) << key;
    EXPECT_THAT(store().Delete(key), StatusIs(absl::StatusCode::kInvalidArgument)) << key;
    EXPECT_THAT(store().Link(key, {.lifetime = absl::Hours(1)}), StatusIs(absl::StatusCode::kInvalidArgument)) << key;
  }
}

TEST_F(S3StoreTest, LargeFilesAreSentInPartsSideBySide) {
  const std::string bytes = Bytes((12 << 20) + 17);
  KINORA_ASSERT_OK_AND_ASSIGN(const StoredFile stored, Put("job/1/video.mp4", bytes));
  EXPECT_EQ(stored.sha256, Sha256Hex(bytes));
  EXPECT_EQ(client_->Seen("UploadPart OK"), 3);
  EXPECT_EQ(client_->Seen("CompleteMultipartUpload OK"), 1);
  EXPECT_TRUE(Get("job/1/video.mp4") == bytes);
  EXPECT_THAT(Put("job/1/video.mp4", bytes), IsOk()) << "the same again";
}

TEST_F(S3StoreTest, OtherContentDoesNotReplaceAFile) {
  EXPECT_THAT(Put("job/1/a", "one"), IsOk());
  EXPECT_THAT(Put("job/1/a", "one"), IsOk());
  EXPECT_THAT(Put("job/1/a", "two"),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("job/1/a: an object with other")));
  EXPECT_EQ(Get("job/1/a"), "one");
}

TEST_F(S3StoreTest, WithoutConditionsOfItsServerItStoresAllTheSame) {
  Fault("^PUT .* if-none-match$",
        R"("kind": "reply", "status": 501, "times": 99, "body": "<Error><Code>NotImplemented</Code></Error>")");
  EXPECT_THAT(Put("job/1/a", "one"), IsOk());
  EXPECT_EQ(Get("job/1/a"), "one");
  EXPECT_THAT(Put("job/1/b", "two"), IsOk());
  EXPECT_EQ(client_->Seen("PutObject NotImplemented"), 1) << "it is not asked again";
}

struct PassingFault {
  const char* name;
  const char* match;
  const char* rest;
};

// Failures that pass, each at one request of a file's life.
class PassingFaults : public S3StoreTest, public testing::WithParamInterface<PassingFault> {};

TEST_P(PassingFaults, AreNotSeenOutside) {
  const std::string small = "small", large = Bytes(11 << 20);
  Fault(GetParam().match, GetParam().rest);
  KINORA_ASSERT_OK_AND_ASSIGN(const StoredFile first, Put("job/1/small", small));
  EXPECT_EQ(first.sha256, Sha256Hex(small));
  KINORA_ASSERT_OK_AND_ASSIGN(const StoredFile second, Put("job/1/large", large));
  EXPECT_EQ(second.sha256, Sha256Hex(large));
  EXPECT_EQ(Get("job/1/small"), small);
  EXPECT_TRUE(Get("job/1/large") == large);
  EXPECT_THAT(store().Size("job/1/large"), IsOkAndHolds(std::ssize(large)));
  EXPECT_THAT(store().Keys("job"), IsOkAndHolds(UnorderedElementsAre("job/1/small", "job/1/large")));
  EXPECT_THAT(store().Delete("job"), IsOk());
  EXPECT_THAT(store().Keys("job"), IsOkAndHolds(IsEmpty()));
}

constexpr char kError500[] = R"("kind": "reply", "status": 500, "body": "<Error><Code>InternalError</Code></Error>")";
constexpr char kSlowDown[] =
    R"("kind": "reply", "status": 503, "times": 3, "body": "<Error><Code>SlowDown</Code></Error>")";
constexpr char kLost[] = R"("kind": "lost")";
constexpr char kRefused[] = R"("kind": "refuse", "times": 2)";
constexpr char kCut[] = R"("kind": "cut")";

INSTANTIATE_TEST_SUITE_P(
    , PassingFaults,
    testing::Values(
        PassingFault{"PutFails", "^PUT .*small", kError500}, PassingFault{"PutIsSlowedDown", "^PUT .*small", kSlowDown},
        PassingFault{"AnswerOfPutIsLost", "^PUT .*small", kLost},
        PassingFault{"PutIsRefused", "^PUT .*small", kRefused},
        PassingFault{"CreateFails", "^POST .*uploads=", kError500},
        PassingFault{"AnswerOfCreateIsLost", "^POST .*uploads=", kLost},
        PassingFault{"PartFails", "^PUT .*partNumber=2", kError500},
        PassingFault{"AnswerOfPartIsLost", "^PUT .*partNumber=1", kLost},
        PassingFault{"PartTimesOut", "^PUT .*partNumber=3",
                     R"("kind": "reply", "status": 400, "body": "<Error><Code>RequestTimeout</Code></Error>")"},
        PassingFault{"CompleteFails", "^POST .*uploadId=", kError500},
        PassingFault{"CompleteFailsInABodyOfStatus200", "^POST .*uploadId=",
                     R"("kind": "reply", "status": 200, "body": "<Error><Code>InternalError</Code></Error>")"},
        PassingFault{"AnswerOfCompleteIsLost", "^POST .*uploadId=", kLost},
        PassingFault{
            "CompleteConflicts", "^POST .*uploadId=",
            R"("kind": "reply", "status": 409, "body": "<Error><Code>ConditionalRequestConflict</Code></Error>")"},
        PassingFault{"GetFails", "^GET .*large", kError500}, PassingFault{"AnswerOfGetIsLost", "^GET .*large", kLost},
        PassingFault{"AnswerOfGetIsCut", "^GET .*large", kCut},
        PassingFault{"GetWithoutACodeFails", "^GET .*large",
                     R"("kind": "reply", "status": 404, "body": "no such page")"},
        PassingFault{"ListFails", "^GET .*list-type", kSlowDown},
        PassingFault{"AnswerOfListIsCut", "^GET .*list-type", kCut},
        PassingFault{"DeleteFails", "^DELETE .*small", kError500},
        PassingFault{"AnswerOfDeleteIsLost", "^DELETE .*large", kLost},
        PassingFault{"KeysAreRefusedOnce", "^PUT .*small",
                     R"("kind": "reply", "status": 400, "body": "<Error><Code>ExpiredToken</Code></Error>")"}),
    [](const auto& info) { return info.param.name; });

// The answer of CompleteMultipartUpload is lost, and the upload is unknown when it is asked again.
constexpr char kCompletedUnheard[] = R"([
  {"match": "^POST .*uploadId=", "kind": "lost"},
  {"match": "^POST .*uploadId=", "kind": "reply", "status": 404, "body": "<Error><Code>NoSuchUpload</Code></Error>"}])";

TEST_F(S3StoreTest, AnUploadThatIsUnknownBecauseItWasCompletedIsFoundByItsDigest) {
  const std::string large = Bytes(7 << 20);
  server_->SetFaults(kCompletedUnheard);
  EXPECT_THAT(Put("job/1/large", large), IsOk());
  EXPECT_EQ(client_->Seen("GetObject OK"), 1) << "which it asks for";
  EXPECT_TRUE(Get("job/1/large") == large);
}

TEST_F(S3StoreTest, AnUploadThatIsUnknownForAnotherReasonIsAnError) {
  constexpr char kUnknown[] = R"("kind": "reply", "status": 404, "body": "<Error><Code>NoSuchUpload</Code></Error>")";
  Fault("^POST .*uploadId=", kUnknown);
  EXPECT_THAT(Put("job/1/large", Bytes(7 << 20)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("its upload is unknown to the server")));
  EXPECT_THAT(Put("job/2/large", "another"), IsOk());
  Fault("^POST .*uploadId=", kUnknown);
  EXPECT_THAT(Put("job/2/large", Bytes(7 << 20)), StatusIs(absl::StatusCode::kAlreadyExists));
}

// As another program copies it: without the digest.
TEST_F(S3StoreTest, AnObjectWithoutADigestIsComparedByItsBytes) {
  const std::string bytes = Bytes((2 << 20) + 5);
  for (const char* key : {"inputs/same", "inputs/other"}) {
    S3Call call{.operation = "PutObject", .method = "PUT", .key = key};
    call.body.bytes = bytes;
    call.body_sha256 = Sha256Hex(bytes);
    EXPECT_THAT(client_->calls.Make(call), IsOk());
  }
  EXPECT_THAT(Put("inputs/same", bytes), IsOk());
  std::string others = bytes;
  others.back() ^= 1;
  EXPECT_THAT(Put("inputs/other", others), StatusIs(absl::StatusCode::kAlreadyExists));
}

TEST_F(S3StoreTest, ACompletionThatIsNeitherAResultNorAnErrorIsAskedForAgain) {
  Fault("^POST .*uploadId=", R"("kind": "replace", "status": 200, "body": "<html/>")");
  EXPECT_THAT(Put("job/1/large", Bytes(7 << 20)), IsOk());
  EXPECT_EQ(client_->Seen("CompleteMultipartUpload InternalError"), 1);
  Fault("^POST .*uploadId=",
        R"("kind": "reply", "status": 200, "times": 99, "body": "<Error><Code>InvalidPart</Code></Error>")");
  EXPECT_THAT(Put("job/2/large", Bytes(7 << 20)), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("InvalidPart")));
  EXPECT_EQ(client_->Seen("CompleteMultipartUpload InvalidPart"), 1) << "it would not pass";
}

TEST_F(S3StoreTest, AServerWithAnotherDateIsFollowed) {
  Fault("^PUT ", R"("kind": "reply", "status": 403, "headers": {"Date": "Thu, 29 Feb 2024 23:59:58 GMT"},
                    "body": "<Error><Code>RequestTimeTooSkewed</Code></Error>")");
  EXPECT_THAT(Put("job/1/a", "one"), IsOk());
  EXPECT_EQ(Get("job/1/a"), "one");
  KINORA_ASSERT_OK_AND_ASSIGN(const ArtifactLink link, store().Link("job/1/a", {.lifetime = absl::Hours(1)}));
  EXPECT_THAT(link.url, HasSubstr("X-Amz-Date=20240"));
}

TEST_F(S3StoreTest, FailuresThatDoNotPassEndTheCall) {
  Fault("^PUT ", R"("kind": "reply", "status": 500, "times": 99, "body": "<Error><Code>InternalError</Code></Error>")");
  EXPECT_THAT(Put("job/1/a", "one"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("PutObject job/1/a: InternalError (HTTP 500)")));
  EXPECT_GT(client_->Seen("PutObject InternalError"), 5) << "a clip that has taken long to make is tried for longer";
  Fault("^GET ", R"("kind": "reply", "status": 500, "times": 99, "body": "<Error><Code>InternalError</Code></Error>")");
  EXPECT_THAT(store().Read("job/1/a", 0, 1), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(client_->Seen("GetObject InternalError"), 5);
  Fault("^PUT .*partNumber=2",
        R"("kind": "reply", "status": 500, "times": 99, "body": "<Error><Code>InternalError</Code></Error>")");
  EXPECT_THAT(Put("job/1/b", Bytes(11 << 20)), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(client_->Seen("AbortMultipartUpload OK"), 1) << "no parts are left behind";
  EXPECT_THAT(store().Size("job/1/b"), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(S3StoreTest, WhatIsWrongWithTheBucketIsSaid) {
  Client wrong_keys(place_, {.id = server_->keys().id, .secret = "wrong"});
  EXPECT_THAT(wrong_keys.store.Check(),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("artifacts: bucket clips at 127.0.0.1:")));
  EXPECT_THAT(wrong_keys.store.Check(),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("SignatureDoesNotMatch (HTTP 403): ")));
  Client denied(place_, server_->denied());
  EXPECT_THAT(denied.store.Check(), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("AccessDenied")));
  S3Options nowhere = place_;
  nowhere.url = "s3://no-such-bucket/x";
  Client without_bucket(nowhere, server_->keys());
  EXPECT_THAT(without_bucket.store.Check(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("NoSuchBucket")));
  S3Options unreachable = place_;
  unreachable.endpoint = "http://127.0.0.1:1";
  Client without_server(unreachable, server_->keys());
  EXPECT_THAT(without_server.store.Check(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("connect to server")));
}

TEST_F(S3StoreTest, LinksAreGoodForWhatTheySayAndNotLonger) {
  EXPECT_THAT(Put("job/1/video.mp4", "clip"), IsOk());
  const absl::Time now = absl::Now();
  KINORA_ASSERT_OK_AND_ASSIGN(const ArtifactLink link, store().Link("job/1/video.mp4", {.lifetime = absl::Hours(1),
                                                                                        .media_type = "video/mp4",
                                                                                        .file_name = "a fox.mp4"}));
  EXPECT_GE(link.expiry, now + absl::Hours(1));
  EXPECT_LE(link.expiry, absl::Now() + absl::Hours(1));
  HttpClient stranger;
  const auto fetch = [&](const std::string& url) {
    const auto reply = stranger.Send({.method = "GET", .url = url});
    return reply.ok() ? *reply : HttpReply{.body = reply.status().ToString()};
  };
  const HttpReply reply = fetch(link.url);
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.body, "clip");
  EXPECT_EQ(reply.Header("content-type"), "video/mp4");
  EXPECT_EQ(reply.Header("content-disposition"), "attachment; filename=\"a fox.mp4\"");
  std::string other = link.url;
  other.replace(other.find("video.mp4"), 9, "other.mp4");
  EXPECT_EQ(fetch(other).status, 403);
  std::string longer = link.url;
  longer.replace(longer.find("Expires=3600"), 12, "Expires=7200");
  EXPECT_EQ(fetch(longer).status, 403);
  FakeClock earlier(now - absl::Hours(2));
  Client before(place_, server_->keys(), {.date = earlier});
  KINORA_ASSERT_OK_AND_ASSIGN(const ArtifactLink brief,
                              before.store.Link("job/1/video.mp4", {.lifetime = absl::Hours(1)}));
  EXPECT_EQ(fetch(brief.url).status, 403);
}

TEST_F(S3StoreTest, StopEndsAnUploadThatWaits) {
  Fault("^PUT ", R"("kind": "reply", "status": 503, "times": 99, "body": "<Error><Code>SlowDown</Code></Error>")");
  std::thread stopper([&] {
    while (client_->Seen("PutObject SlowDown") == 0) std::this_thread::yield();
    client_->calls.Stop();
  });
  EXPECT_THAT(Put("job/1/a", "one"), StatusIs(absl::StatusCode::kCancelled));
  stopper.join();
  EXPECT_THAT(store().Size("job/1/a"), StatusIs(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace kinora
