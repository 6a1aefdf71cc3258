#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "engine/base/strings.h"
#include "engine/text/tokenizer.h"
#include "engine/weights/checkpoint.h"
#include "nlohmann/json.hpp"
#include "tests/testing/golden.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Ids = std::vector<int32_t>;

std::string TinyText() {
  static Golden& golden = *new Golden("tokenizer_json");
  const Tensor& json = golden.Get("in.json");
  return std::string(reinterpret_cast<const char*>(json.data<uint8_t>()), json.elements());
}
nlohmann::json TinyJson() { return nlohmann::json::parse(TinyText()); }

Ids Encode(const nlohmann::json& json, std::string_view text, int64_t max_tokens = 1024) {
  return Tokenizer::FromJson(json.dump()).value()->Encode(text, max_tokens).value();
}

// 900 generated lines of many scripts, emoji, control characters, runs of spaces and newlines, and added tokens, cut at
// 48 ids.
TEST(JsonTokenizer, IdsEqualThoseOfLightricksTokenizer) {
  Golden golden("tokenizer_json");
  const auto tokenizer = Tokenizer::FromJson(TinyText()).value();
  const int64_t max_tokens = nlohmann::json::parse(golden.metadata("parameters"))["max_tokens"];
  const Tensor &text = golden.Get("in.text"), &text_ends = golden.Get("in.text_offsets");
  const Tensor &ids = golden.Get("out.ids"), &ids_ends = golden.Get("out.ids_offsets");
  const int64_t lines = text_ends.elements() - 1;
  ASSERT_GE(lines, 900);
  int wrong = 0;
  for (int64_t i = 0; i < lines; ++i) {
    const int32_t *at = text_ends.data<int32_t>() + i, *id = ids_ends.data<int32_t>() + i;
    const std::string_view line(reinterpret_cast<const char*>(text.data<uint8_t>()) + at[0], at[1] - at[0]);
    const Ids expected(ids.data<int32_t>() + id[0], ids.data<int32_t>() + id[1]);
    const Ids actual = tokenizer->Encode(StripWhiteSpace(line), max_tokens).value();
    if (actual == expected || ++wrong > 3) continue;
    ADD_FAILURE() << "line " << i << ": " << line << "\n"
                  << testing::PrintToString(actual) << "\n"
                  << testing::PrintToString(expected);
  }
  EXPECT_EQ(wrong, 0);
}

TEST(JsonTokenizer, TheBeginTokenIsPutInFrontOnceAndTheLastIdGivesWay) {
  const nlohmann::json json = TinyJson();
  const Ids plain = Encode(json, "a fox");
  EXPECT_EQ(plain[0], 2);
  EXPECT_EQ(Encode(json, "<bos>a fox"), plain);
  EXPECT_THAT(Encode(json, ""), ElementsAre(2));
  const Ids cut = Encode(json, std::string(100, 'a') + "<bos>", 10);
  EXPECT_THAT(cut, SizeIs(10));
  EXPECT_EQ(cut[0], 2);
  EXPECT_NE(cut[9], 2);
}

TEST(JsonTokenizer, ATemplatePutsItsSymbolsInFront) {
  nlohmann::json json = TinyJson();
  const Ids plain = Encode(json, "a fox");
  json["post_processor"] = nlohmann::json::parse(R"({"type":"TemplateProcessing","single":[
      {"SpecialToken":{"id":"<bos>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"pair":[],
      "special_tokens":{"<bos>":{"id":"<bos>","ids":[2],"tokens":["<bos>"]}}})");
  EXPECT_EQ(Encode(json, "a fox"), plain);
  EXPECT_THAT(Encode(json, "<bos>"), ElementsAre(2, 2));
}

TEST(JsonTokenizer, MergesMayBeWrittenAsTexts) {
  nlohmann::json json = TinyJson();
  const Ids listed = Encode(json, "the red fox runs");
  for (auto& merge : json["model"]["merges"])
    merge = Cat(merge[0].get<std::string>(), " ", merge[1].get<std::string>());
  EXPECT_EQ(Encode(json, "the red fox runs"), listed);
}

// A merge moved to the end changes the ids: it is the rank that counts, not the id.
TEST(JsonTokenizer, TheRankOfAMergeCounts) {
  nlohmann::json json = TinyJson();
  const Ids before = Encode(json, "the red fox runs through the snowy forest");
  std::vector<nlohmann::json> merges = json["model"]["merges"];
  std::reverse(merges.begin(), merges.end());
  json["model"]["merges"] = merges;
  EXPECT_NE(Encode(json, "the red fox runs through the snowy forest"), before);
}

TEST(JsonTokenizer, WhatIsNotSupportedIsNamed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"model":{"type":"Unigram"}})", "model.type: \"Unigram\""},
      {R"({"model":{"byte_fallback":false}})", "model.byte_fallback"},
      {R"({"model":{"dropout":0.1}})", "model.dropout"},
      {R"({"model":{"ignore_merges":true}})", "model.ignore_merges"},
      {R"({"model":{"end_of_word_suffix":"</w>"}})", "model.end_of_word_suffix"},
      {R"({"model":{"vocab":{"<0x41>":null}}})", "model.vocab: <0x41> is missing"},
      {R"({"model":{"vocab":{"xyz":2}}})", "two pieces have the id 2"},
      {R"({"model":{"vocab":{"xyz":"2"}}})", "model.vocab: ids must be numbers"},
      {R"({"model":{"merges":[["a","nowhere"]]}})", "model.merges: entry 0 is not of pieces"},
      {R"({"model":{"merges":["a b c"]}})", "model.merges: entry 0 is not a pair"},
      {R"({"normalizer":{"type":"NFKC"}})", "normalizer: {\"content\""},
      {R"({"normalizer":{"pattern":{"String":null,"Regex":" +"}}})", "normalizer"},
      {R"({"pre_tokenizer":{"behavior":"Removed"}})", "pre_tokenizer"},
      {R"({"pre_tokenizer":{"type":"ByteLevel"}})", "pre_tokenizer"},
      {R"({"post_processor":{"type":"ByteLevel"}})", "post_processor"},
      {R"({"decoder":{"type":"WordPiece"}})", "decoder"},
      {R"({"added_tokens":[{"id":5,"content":"x","lstrip":true}]})", "added_tokens.lstrip"},
      {R"({"added_tokens":[{"id":5,"content":"<bos>"}]})", "has another id in model.vocab"},
      {R"({"added_tokens":[{"content":"<bos>"}]})", "no id"},
  };
  ASSERT_THAT(Tokenizer::FromJson(TinyJson().dump()), IsOk());
  for (const auto& [patch, problem] : cases) {
    nlohmann::json json = TinyJson();
    json.merge_patch(nlohmann::json::parse(patch));
    EXPECT_THAT(Tokenizer::FromJson(json.dump()), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(problem)))
        << patch;
  }
}

// As in a single text encoder file; ComfyUI writes the bytes as I8.
TEST(JsonTokenizer, ATensorOfTheTextEncoderIsRead) {
  for (const char* dtype : {"U8", "I8"}) {
    const TemporaryDirectory folder;
    const std::string json = TinyText();
    const std::string header = Cat(R"({"tokenizer_json":{"dtype":")", dtype, R"(","shape":[)", json.size(),
                                   R"(],"data_offsets":[0,)", json.size(), "]}}");
    std::ofstream file(folder.File("model.safetensors"), std::ios::binary);
    const uint64_t bytes = header.size();
    file.write(reinterpret_cast<const char*>(&bytes), sizeof bytes);
    file << header << json;
    file.close();
    std::ofstream(folder.File("config.json")) << "{}";
    KINORA_ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open({.text_encoder = folder.File("")}));
    EXPECT_TRUE(Tokenizer::IsIn(*checkpoint));
    KINORA_ASSERT_OK_AND_ASSIGN(const auto tokenizer, Tokenizer::LoadFrom(*checkpoint));
    EXPECT_EQ(tokenizer->Encode("a fox", 1024).value(), Encode(TinyJson(), "a fox"));
  }
}

TEST(JsonTokenizer, DamagedFilesAreRefused) {
  const std::string good = TinyText();
  for (size_t size = 0; size < good.size(); size += 397) {
    EXPECT_THAT(Tokenizer::FromJson(std::string_view(good).substr(0, size)),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
  for (size_t i = 0; i < good.size(); i += 211) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x11);
    if (const auto tokenizer = Tokenizer::FromJson(bad); tokenizer.ok()) {
      EXPECT_THAT((*tokenizer)->Encode("a red fox 狐", 1024), IsOk());
    }
  }
  EXPECT_THAT(Tokenizer::FromJson("{\"normalizer\":" + std::string(1'000'000, '[')),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("nested too deep")));
}

}  // namespace
}  // namespace kinora
