// GoogleTest matchers for absl::Status and absl::StatusOr; the Abseil of Debian 12 has none.
//   EXPECT_THAT(store.Open(path), IsOk());
//   EXPECT_THAT(Parse("x"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("x")));
//   EXPECT_THAT(Parse("1"), IsOkAndHolds(1));
//   KINORA_ASSERT_OK_AND_ASSIGN(auto value, Parse("1"));
#ifndef KINORA_TESTS_TESTING_STATUS_MATCHERS_H_
#define KINORA_TESTS_TESTING_STATUS_MATCHERS_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kinora {

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& value) {
  return value.status();
}

MATCHER(IsOk, negation ? "is not OK" : "is OK") {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).ok();
}

MATCHER_P2(StatusIsMatcher, code, message, "has the code and the message asked for") {
  const absl::Status& status = StatusOf(arg);
  *result_listener << status.ToString();
  return status.code() == code && testing::ExplainMatchResult(message, std::string(status.message()), result_listener);
}

template <typename Message>
auto StatusIs(absl::StatusCode code, Message message) {
  return StatusIsMatcher(code, message);
}
inline auto StatusIs(absl::StatusCode code) { return StatusIsMatcher(code, testing::_); }

MATCHER_P(IsOkAndHolds, value, "is OK and holds a matching value") {
  if (!arg.ok()) {
    *result_listener << arg.status().ToString();
    return false;
  }
  return testing::ExplainMatchResult(value, *arg, result_listener);
}

}  // namespace kinora

#define KINORA_TEST_CONCAT_INNER_(a, b) a##b
#define KINORA_TEST_CONCAT_(a, b) KINORA_TEST_CONCAT_INNER_(a, b)
#define KINORA_ASSERT_OK_AND_ASSIGN(declaration, expression) \
  KINORA_ASSERT_OK_AND_ASSIGN_IMPL_(KINORA_TEST_CONCAT_(kinora_test_, __LINE__), declaration, expression)
#define KINORA_ASSERT_OK_AND_ASSIGN_IMPL_(result, declaration, expression) \
  auto result = (expression);                                              \
  ASSERT_TRUE(result.ok()) << result.status();                             \
  declaration = *std::move(result)

#endif  // KINORA_TESTS_TESTING_STATUS_MATCHERS_H_
