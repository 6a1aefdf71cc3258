#include "server/frontend/api/token_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::HasSubstr;

class TokenFile : public testing::Test {
 protected:
  absl::StatusOr<TokenSet> Load(const std::string& text, mode_t mode = 0600) {
    WriteFile(directory_.File("tokens"), text);
    EXPECT_EQ(chmod(directory_.File("tokens").c_str(), mode), 0);
    return TokenSet::Load(directory_.File("tokens"));
  }
  TemporaryDirectory directory_;
};

TEST_F(TokenFile, AcceptsAnyOfItsTokensAndNothingElse) {
  KINORA_ASSERT_OK_AND_ASSIGN(const TokenSet tokens, Load("# team a\n  aaaaaaaaaaaaaaaa \n\nbbbbbbbbbbbbbbbb"));
  EXPECT_THAT(tokens.Check("Bearer aaaaaaaaaaaaaaaa"), IsOk());
  EXPECT_THAT(tokens.Check("Bearer bbbbbbbbbbbbbbbb"), IsOk());
  EXPECT_THAT(tokens.Check("bearer bbbbbbbbbbbbbbbb"), IsOk());  // schemes are case-insensitive
  EXPECT_THAT(tokens.Check("BEARER  bbbbbbbbbbbbbbbb"), IsOk());
  for (const char* bad : {"", "aaaaaaaaaaaaaaaa", "Bearer ", "Bearer aaaaaaaaaaaaaaa", "Beareraaaaaaaaaaaaaaaa",
                          "Bearer AAAAAAAAAAAAAAAA", "Bearer # team a", "Basic aaaaaaaaaaaaaaaa"}) {
    EXPECT_THAT(tokens.Check(bad), StatusIs(absl::StatusCode::kUnauthenticated)) << bad;
  }
  EXPECT_THAT(TokenSet().Check(""), IsOk());  // no file, no check
}

TEST_F(TokenFile, RefusesFilesThatAreOpenEmptyMissingOrWeak) {
  EXPECT_THAT(Load("aaaaaaaaaaaaaaaa", 0644), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("chmod")));
  EXPECT_THAT(Load("# nothing\n"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no token")));
  EXPECT_THAT(Load("short"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("16")));
  EXPECT_THAT(TokenSet::Load("/nowhere/tokens"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere/tokens")));
}

TEST_F(TokenFile, AByteOrderMarkIsNoPartOfTheFirstToken) {
  KINORA_ASSERT_OK_AND_ASSIGN(const TokenSet tokens, Load("\xef\xbb\xbf"
                                                          "aaaaaaaaaaaaaaaa\r\nbbbbbbbbbbbbbbbb\r\n"));
  EXPECT_THAT(tokens.Check("Bearer aaaaaaaaaaaaaaaa"), IsOk());
  EXPECT_THAT(tokens.Check("Bearer bbbbbbbbbbbbbbbb"), IsOk());
}

TEST_F(TokenFile, ATokenThatNoHeaderCanCarryIsRejected) {
  std::string utf16 = "\xff\xfe";
  for (const char c : std::string("aaaaaaaaaaaaaaaa\n")) utf16 += {c, '\0'};
  for (const std::string& text : {utf16,
                                  std::string("aaaaaaaa\xe2\x80\x8b"
                                              "aaaaaaaa"),
                                  std::string("aaaaaaaa\0aaaaaaaa", 17)}) {
    EXPECT_THAT(Load(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("line 1 contains a character")));
  }
}

TEST_F(TokenFile, ReadsOnlyRegularFilesOfABoundedSize) {
  ASSERT_EQ(mkfifo(directory_.File("fifo").c_str(), 0600), 0);
  EXPECT_THAT(TokenSet::Load(directory_.File("fifo")),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("regular file")));
  EXPECT_THAT(TokenSet::Load(directory_.path()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("regular file")));
  EXPECT_THAT(Load(std::string(5 << 20, 'a')), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("4194304")));
}

}  // namespace
}  // namespace kinora
