#include "server/worker/inherited_secret.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "engine/base/check.h"
#include "server/common/secret.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

int PipeThatHolds(const std::string& bytes) {
  int ends[2];
  KINORA_CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
  KINORA_CHECK_EQ(write(ends[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  close(ends[1]);
  return ends[0];
}

TEST(InheritedSecret, IsReadOnceAndItsPipeIsClosed) {
  const std::string secret = DrawSecret();
  const int pipe = PipeThatHolds(secret);
  KINORA_ASSERT_OK_AND_ASSIGN(const std::string read, ReadInheritedSecret(pipe));
  EXPECT_EQ(read, secret);
  EXPECT_EQ(fcntl(pipe, F_GETFD), -1);
}

TEST(InheritedSecret, APipeOfAnotherLengthOrNoPipeIsRefusedByName) {
  for (const size_t bytes : {size_t{0}, kSecretBytes - 1, kSecretBytes + 1, size_t{4000}}) {
    EXPECT_THAT(ReadInheritedSecret(PipeThatHolds(std::string(bytes, 'x'))),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("secret_fd")));
  }
  EXPECT_THAT(ReadInheritedSecret(4711), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("4711 is not a pipe")));
  const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  EXPECT_THAT(ReadInheritedSecret(file), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is not a pipe")));
  close(file);
}

}  // namespace
}  // namespace kinora
