#include "server/common/status_details.h"

#include <grpcpp/support/status.h>
#include <gtest/gtest.h>

#include "google/rpc/error_details.pb.h"
#include "server/common/file_error.h"
#include "server/net/grpc_status.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

TEST(StatusDetails, ClientsSeeNoDirectories) {
  const auto shown = [](const char* message) {
    return std::string(WithoutDirectories(absl::DataLossError(message)).message());
  };
  EXPECT_EQ(shown("/srv/models/a.safetensors: read: Input/output error"), "a.safetensors: read: Input/output error");
  EXPECT_EQ(shown("cannot open '/srv/a' (in /srv/b/c.bin)"), "cannot open 'a' (in c.bin)");
  EXPECT_EQ(shown("read=/a/b"), "read=b");
  EXPECT_EQ(shown("/srv/models/: empty"), "models/: empty");
  for (const char* plain : {"", "/", "//", "a/b/c: 3/4", "https://host/path", "/readyz"}) {
    EXPECT_EQ(shown(plain), plain);
  }
  const absl::Status detailed = WithErrorInfo(absl::InternalError("/a/b"), "BROKEN");
  EXPECT_EQ(ErrorReason(WithoutDirectories(detailed)), "BROKEN");
  EXPECT_TRUE(WithoutDirectories(absl::OkStatus()).ok());
}

TEST(StatusDetails, EachViolationIsALineOfItsOwn) {
  EXPECT_EQ(ErrorLines("kinora", InvalidFields({{"a", "is b; or c"}, {"d", "is e"}})),
            "kinora: a: is b; or c\nkinora: d: is e\n");
  EXPECT_EQ(ErrorLines("kinora", absl::NotFoundError("a file")), "kinora: a file\n");
}

TEST(StatusDetails, SurviveTheTripOverGrpc) {
  absl::Status status = InvalidFields(
      {{"generation.width", "100 is not a multiple of 32; nearest: 96"}, {"generation.height", "too large"}});
  status = WithErrorInfo(status, "SHAPE_TOO_LARGE", {{"max_width", "1536"}});
  const absl::Status back = FromGrpcStatus(ToGrpcStatus(status));
  EXPECT_EQ(back, status);  // code, message and payloads
  EXPECT_EQ(ErrorReason(back), "SHAPE_TOO_LARGE");
  ASSERT_EQ(Violations(back).size(), 2u);
  EXPECT_EQ(Violations(back)[0].field, "generation.width");
  EXPECT_EQ(back.message(), "generation.width: 100 is not a multiple of 32; nearest: 96; generation.height: too large");
}

TEST(StatusDetails, TheWireFormIsGoogleRpcStatus) {
  const grpc::Status status = ToGrpcStatus(WithRetryInfo(absl::UnavailableError("draining"), absl::Milliseconds(1500)));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  google::rpc::Status wire;
  ASSERT_TRUE(wire.ParseFromString(status.error_details()));
  EXPECT_EQ(wire.code(), 14);
  google::rpc::RetryInfo retry;
  ASSERT_TRUE(wire.details(0).UnpackTo(&retry));
  EXPECT_EQ(retry.retry_delay().seconds(), 1);
  EXPECT_EQ(retry.retry_delay().nanos(), 500'000'000);
}

// Clients must not learn where a server keeps its files, and a missing file is not a NOT_FOUND of the requested object.
TEST(StatusDetails, AnErrorWithAFileIsToldWithoutItsFolders) {
  errno = ENOENT;
  const absl::Status missing = FileError("/srv/kinora/artifacts/video.mp4", "open");
  EXPECT_EQ(missing.message(), "/srv/kinora/artifacts/video.mp4: cannot open: No such file or directory");
  const grpc::Status told = ToGrpcStatus(missing);
  EXPECT_EQ(told.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(told.error_message(), "video.mp4: cannot open: No such file or directory");
  EXPECT_EQ(told.error_details(), "");
  errno = ENOSPC;
  const absl::Status full = FromGrpcStatus(ToGrpcStatus(FileError("/srv/kinora/jobs.db", "write")));
  EXPECT_EQ(full, absl::ResourceExhaustedError("jobs.db: cannot write: No space left on device"));
  EXPECT_EQ(FromRpcStatus(ToRpcStatus(OfFile("/a/b", absl::DataLossError("/a/b: ends early")))),
            absl::DataLossError("b: ends early"));
}

TEST(StatusDetails, EveryCodeKeepsItsNumber) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "why");
    EXPECT_EQ(static_cast<int>(ToGrpcStatus(status).error_code()), code);
    EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(status)), status);
    EXPECT_EQ(FromRpcStatus(ToRpcStatus(status)), status);
  }
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_TRUE(FromGrpcStatus(grpc::Status::OK).ok());
}

TEST(StatusDetails, ALongMessageIsCutBetweenCharacters) {
  std::string message;
  for (int i = 0; i < 4000; ++i) message += "ü";
  const grpc::Status status = ToGrpcStatus(absl::InternalError(message));
  EXPECT_LT(status.error_message().size(), 1600u);
  EXPECT_EQ(status.error_message().size() % 2, 1u);  // whole two-byte characters and a three-byte ellipsis
}

TEST(StatusDetails, ACodeOfNobodyIsUnknown) {
  google::rpc::Status status;
  status.set_code(77);
  EXPECT_THAT(FromRpcStatus(status), StatusIs(absl::StatusCode::kUnknown));
}

}  // namespace
}  // namespace kinora
