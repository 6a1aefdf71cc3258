#include "server/common/status_details.h"

#include <grpcpp/support/status.h>
#include <gtest/gtest.h>

#include "google/rpc/error_details.pb.h"
#include "server/common/file_error.h"
#include "server/common/grpc_status.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

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

// Where the files of a server lie is no client's business, and that one is missing is no NOT_FOUND of what was asked
// for.
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
