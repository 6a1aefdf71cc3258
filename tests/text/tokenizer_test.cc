#include "engine/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "engine/config/model_config.h"
#include "engine/text/tokenizer_model.h"
#include "tests/testing/golden.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Ids = std::vector<int32_t>;

std::string ModelBytes() {
  std::ifstream file(KINORA_SOURCE_DIR "/models/tiny/gemma/tokenizer.model", std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

const Tokenizer& Tiny() {
  static const Tokenizer& tokenizer =
      *Tokenizer::Load(KINORA_SOURCE_DIR "/models/tiny/gemma/tokenizer.model").value().release();
  return tokenizer;
}

Ids Encode(std::string_view text) { return Tiny().Encode(text, kMaxPromptRows).value(); }
Ids EncodeStripped(std::string_view text) { return Encode(StripWhiteSpace(text)); }

// Ids of the tiny model: 0 <pad>, 1 <eos>, 2 <bos>, 3 <unk>, 10 <start_of_turn>, 12 "\n", 13 "\n\n".
// 2,000 generated lines of many scripts, emoji, control characters, runs of spaces and newlines, and symbols written
// out.
TEST(Tokenizer, IdsEqualThoseOfTheFastTokenizerOfTransformers) {
  Golden golden("tokenizer");
  const Tensor &text = golden.Get("in.text"), &text_ends = golden.Get("in.text_offsets");
  const Tensor &ids = golden.Get("out.ids"), &ids_ends = golden.Get("out.ids_offsets");
  const int64_t lines = text_ends.elements() - 1;
  ASSERT_GE(lines, 2000);
  int wrong = 0;
  for (int64_t i = 0; i < lines; ++i) {
    const int32_t *at = text_ends.data<int32_t>() + i, *id = ids_ends.data<int32_t>() + i;
    const std::string_view line(reinterpret_cast<const char*>(text.data<uint8_t>()) + at[0], at[1] - at[0]);
    const Ids expected(ids.data<int32_t>() + id[0], ids.data<int32_t>() + id[1]);
    if (Encode(line) == expected || ++wrong > 3) continue;
    ADD_FAILURE() << "line " << i << ": " << line << "\n"
                  << testing::PrintToString(Encode(line)) << "\n"
                  << testing::PrintToString(expected);
  }
  EXPECT_EQ(wrong, 0);
}

TEST(Tokenizer, AnEmptyTextIsTheBeginTokenAlone) {
  EXPECT_THAT(Encode(""), ElementsAre(2));
  EXPECT_THAT(EncodeStripped(" \t\n\v\f\r\x1c\x1f\u0085\u00a0\u2003\u3000"), ElementsAre(2));
}

TEST(Tokenizer, WhiteSpaceIsStrippedAtTheEndsOnly) {
  EXPECT_EQ(StripWhiteSpace("\u3000 a red  fox\n"), "a red  fox");
  EXPECT_EQ(StripWhiteSpace("\u200bfox "), "\u200bfox");  // a zero-width space is not white space
  EXPECT_NE(Encode("a red  fox"), Encode("a red fox"));
  EXPECT_NE(Encode(" fox"), Encode("fox"));
}

TEST(Tokenizer, SpecialSymbolsInTheTextAreTheirOneId) {
  EXPECT_THAT(Encode("<bos>"), ElementsAre(2, 2));
  EXPECT_THAT(Encode("<pad><eos><unk><start_of_turn>"), ElementsAre(2, 0, 1, 3, 10));
  EXPECT_THAT(Encode("<bos>\n\n\n<bos>"), ElementsAre(2, 2, 14, 2));  // the longest symbol wins
  Ids expected = Encode("fox");
  expected.push_back(1);
  for (int32_t id : Encode("bones")) expected.push_back(id == 2 ? 1 : id);
  expected.erase(expected.begin() + static_cast<int64_t>(Encode("fox").size()));
  EXPECT_EQ(Encode("fox<eos>bones"), expected);
  EXPECT_GT(Encode("<bos").size(), 3u);
}

TEST(Tokenizer, RunsOfSpacesAndOfTheirSymbolAreOneId) {
  const Ids spaces = Encode("<bos>" + std::string(16, ' ') + "<bos>");
  EXPECT_THAT(spaces, SizeIs(4));
  EXPECT_EQ(spaces, Encode("<bos>▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁<bos>"));
  const Ids eight = Encode("<bos>" + std::string(8, ' ')), nine = Encode("<bos>" + std::string(9, ' '));
  EXPECT_THAT(Encode("<bos>" + std::string(17, ' ') + "<bos>"),
              ElementsAre(2, 2, eight[2], nine[2], 2));  // the lowest ids merge first
}

TEST(Tokenizer, WhatHasNoPieceBecomesItsBytes) {
  const Ids nul = Encode(std::string("a\0b", 3)), bell = Encode("a\ab");
  EXPECT_THAT(nul, SizeIs(4));
  EXPECT_EQ(nul[2] + 7, bell[2]);  // <0x00> and <0x07>
  EXPECT_THAT(Encode("𓂀"), SizeIs(5));
  EXPECT_EQ(Encode("a\tb")[2], nul[2] + 9);
}

TEST(Tokenizer, LongTextsAreCutAtTheRowsOfAPrompt) {
  std::string text = "fox";
  for (int i = 0; i < 3000; ++i) text += "<eos>";
  const Ids ids = Encode(text);
  EXPECT_THAT(ids, SizeIs(1024));
  EXPECT_EQ(ids.front(), 2);
  EXPECT_EQ(ids.back(), 1);
  EXPECT_THAT(Encode(std::string(5000, 'x')), SizeIs(1024));
  for (size_t rows : {1, 2, 128, 1023}) {
    const Ids cut = Tiny().Encode(text, static_cast<int64_t>(rows)).value();
    EXPECT_EQ(cut, Ids(ids.begin(), ids.begin() + static_cast<int64_t>(rows))) << rows;
  }
}

TEST(Tokenizer, InvalidUtf8IsRefusedWithItsOffset) {
  for (const auto& [text, offset] : std::vector<std::pair<std::string, std::string>>{{"ab\xff", "2"},
                                                                                     {"\xc0\xaf", "0"},
                                                                                     {"a\xed\xa0\x80", "1"},
                                                                                     {"é\xe2\x82", "2"},
                                                                                     {"\xf4\x90\x80\x80", "0"},
                                                                                     {"x\x80", "1"}}) {
    EXPECT_THAT(Tiny().Encode(text, kMaxPromptRows),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at byte " + offset)));
  }
}

TEST(Tokenizer, AddedTokensBesideTheModelCount) {
  const auto tokenizer = Tokenizer::FromModel(ModelBytes(), {{"<image_soft_token>", 1030}}).value();
  EXPECT_THAT(tokenizer->Encode("<image_soft_token>", kMaxPromptRows).value(), ElementsAre(2, 1030));
  EXPECT_EQ(tokenizer->vocabulary(), 1031);
  EXPECT_EQ(Tiny().vocabulary(), 1024);
}

TEST(Tokenizer, AMissingFileIsNamed) {
  EXPECT_THAT(Tokenizer::Load("/nowhere/tokenizer.model"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere/tokenizer.model")));
}

// Every truncation and a sample of changed bytes yield an error or a tokenizer, never a crash.
TEST(Tokenizer, DamagedModelsAreRefused) {
  const std::string good = ModelBytes();
  ASSERT_GT(good.size(), 10000u);
  for (size_t size = 0; size < good.size(); size += 97) {
    EXPECT_THAT(Tokenizer::FromModel(std::string_view(good).substr(0, size)),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
  for (size_t i = 0; i < good.size(); i += 211) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x55);
    if (const auto tokenizer = Tokenizer::FromModel(bad); tokenizer.ok()) {
      EXPECT_TRUE((*tokenizer)->Encode("a red fox 狐", kMaxPromptRows).ok());
    }
  }
}

TEST(Tokenizer, AModelOfAnotherKindIsRefusedByField) {
  // trainer_spec is field 2, its model_type is field 3. A second message would be merged into the first.
  EXPECT_THAT(Tokenizer::FromModel(ModelBytes() + std::string("\x12\x02\x18\x01", 4)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("twice")));
  const std::string unigram = std::string("\x0a\x05\x0a\x03", 4) + "<a>" + std::string("\x12\x02\x18\x01\x1a\x00", 6);
  EXPECT_THAT(Tokenizer::FromModel(unigram),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("trainer_spec.model_type")));
}

}  // namespace
}  // namespace kinora
