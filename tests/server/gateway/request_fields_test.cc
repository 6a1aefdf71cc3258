#include "server/gateway/request_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "server/common/status_details.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(RequestFieldsTest, MalformedJsonIsNamed) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "not valid JSON"},
      {"{\"a\": 1", "not valid JSON"},
      {"{} {}", "not valid JSON"},
      {"{\"a\": NaN}", "not valid JSON"},
      {"{\"a\": \"\xff\"}", "not valid JSON"},
      {"[1]", "not a JSON object"},
      {"{\"a\": 1, \"a\": 2}", "the name a twice"},
      {"{\"a\": {\"b\": 1, \"b\": 2}}", "the name b twice"},
      {"{\"a\": [[[[[[[[1]]]]]]]]}", "nested deeper than 8"},
      {std::string(1 << 20, '['), "nested deeper than 8"},
      {"{\"a\": [0" + std::string(20000, ',') + "]}", "not valid JSON"}};
  for (const auto& [body, message] : cases) {
    const auto fields = RequestFields::FromJson(body);
    EXPECT_THAT(fields, StatusIs(kInvalid, HasSubstr(message)));
    EXPECT_EQ(ErrorReason(fields.status()), "MALFORMED_BODY");
  }
}

TEST(RequestFieldsTest, ManyValuesAreNeverBuilt) {
  std::string body = "{\"a\": [0";
  for (int i = 0; i < 10000; ++i) body += ",0";
  EXPECT_THAT(RequestFields::FromJson(body + "]}"), StatusIs(kInvalid, HasSubstr("more than 2048 values")));
  body = "{\"a\": [[]";
  for (int i = 0; i < 10000; ++i) body += ",[]";
  EXPECT_THAT(RequestFields::FromJson(body + "]}"), StatusIs(kInvalid, HasSubstr("more than 2048 values")));
}

TEST(RequestFieldsTest, ABodyOfTooManyBytesIsTooLarge) {
  const auto fields = RequestFields::FromJson(std::string(kMaxFieldsBytes + 1, ' '));
  EXPECT_EQ(ErrorReason(fields.status()), "BODY_TOO_LARGE");
  RequestFields parts;
  const std::string half(kMaxFieldsBytes / 2, 'x');
  EXPECT_THAT(parts.AddText("a", half), IsOk());
  EXPECT_EQ(ErrorReason(parts.AddText("b", half)), "BODY_TOO_LARGE") << "with the names it is more";
}

TEST(RequestFieldsTest, NamesWithBracketsBecomeObjectsAndLists) {
  RequestFields fields;
  const std::pair<const char*, const char*> parts[] = {
      {"lora[name]", "kite"},        {"sigmas[]", "1"},           {"sigmas[]", "0"}, {"extra_params[a][b]", "2"},
      {"conditions[0][frame]", "3"}, {"prompt", "[not] brackets"}};
  for (const auto& [name, value] : parts) ASSERT_THAT(fields.AddText(name, value), IsOk()) << name;
  ASSERT_THAT(fields.Merge(), IsOk());
  EXPECT_EQ(fields.values(), nlohmann::ordered_json::parse(R"({"lora": {"name": "kite"}, "sigmas": ["1", "0"],
      "conditions": {"0": {"frame": "3"}}, "prompt": "[not] brackets", "a": {"b": "2"}})"));
}

TEST(RequestFieldsTest, PartsThatContradictAreRejected) {
  const std::pair<const char*, const char*> pairs[] = {{"a", "a"},      {"a", "a[]"},        {"a[]", "a"},
                                                       {"a[b]", "a[]"}, {"a[b]", "a[b][c]"}, {"a[b]", "a"}};
  for (const auto& [first, second] : pairs) {
    RequestFields fields;
    ASSERT_THAT(fields.AddText(first, "x"), IsOk());
    EXPECT_THAT(fields.AddText(second, "x"), StatusIs(kInvalid, HasSubstr("given twice"))) << first << " " << second;
  }
  for (const char* name : {"", "[a]", "a[", "a]b[", "a[b]c", "a[b", "a[1][2][3][4][5][6][7][8]"}) {
    RequestFields fields;
    EXPECT_THAT(fields.AddText(name, "x"), StatusIs(kInvalid)) << name;
  }
  RequestFields fields;
  EXPECT_THAT(fields.AddText("a[][b]", "x"), StatusIs(kInvalid, HasSubstr("JSON text, or with indices")));
  EXPECT_THAT(fields.AddText("a", "\xff"), StatusIs(kInvalid));
  ASSERT_THAT(fields.AddFile("f"), IsOk());
  EXPECT_THAT(fields.AddFile("f"), StatusIs(kInvalid, HasSubstr("given twice")));
  EXPECT_THAT(fields.AddText("f", "x"), StatusIs(kInvalid, HasSubstr("given twice")));
}

TEST(RequestFieldsTest, TheModelIsKnownBeforeTheRest) {
  EXPECT_EQ(RequestFields::FromJson(R"({"extra_body": {"model": "ltx"}})")->model(), "ltx");
  EXPECT_EQ(RequestFields::FromJson(R"({"model": 5})")->model(), "");
  EXPECT_EQ(RequestFields::FromJson("{}")->model(), "");
}

}  // namespace
}  // namespace kinora
