#include "server/worker/lora_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/weights/checkpoint.h"
#include "server/common/sha256.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;
using testing::Pair;

constexpr char kStyle[] = KINORA_SOURCE_DIR "/tests/golden/data/lora-tiny-style.safetensors";
constexpr char kDetail[] = KINORA_SOURCE_DIR "/tests/golden/data/lora-tiny-detail.safetensors";
constexpr char kModel[] = KINORA_SOURCE_DIR "/models/tiny/ltx-2.3-tiny-dev.safetensors";

class LoraFolderTest : public testing::Test {
 protected:
  LoraFolderTest() { std::filesystem::create_directory(path_); }
  std::string In(const std::string& name) const { return path_ + "/" + name; }
  // Writes a file as a copy in progress does: the file exists and grows.
  void Put(const std::string& name, const std::string& bytes) const { WriteFile(In(name), bytes); }
  bool Settle() {
    folder_.Look();
    return folder_.Look();
  }
  std::string DigestOf(const std::string& id) const { return folder_.loras().at(id)->digest(); }

  TemporaryDirectory directory_;
  const std::string path_ = directory_.File("loras");
  const std::shared_ptr<const Checkpoint> model_ = *Checkpoint::Open({.paths = {kModel}});
  LoraFolder folder_{
      path_,
      [this](std::shared_ptr<const SafetensorsFile> file) { return Lora::Open(std::move(file), *model_); },
      {"taken"}};
};

TEST_F(LoraFolderTest, AFileIsListedByItsStemOnceItStaysAsItIs) {
  EXPECT_FALSE(folder_.Look());
  Put("style.safetensors", ReadFile(kStyle));
  EXPECT_FALSE(folder_.Look());  // it may still grow
  EXPECT_TRUE(folder_.Look());
  EXPECT_THAT(folder_.loras(), ElementsAre(Key("style")));
  EXPECT_EQ(DigestOf("style"), "sha256:" + Sha256Hex(ReadFile(kStyle)));
  EXPECT_FALSE(folder_.Look());
  Put("detail.safetensors", ReadFile(kDetail));
  EXPECT_TRUE(Settle());
  EXPECT_THAT(folder_.loras(), ElementsAre(Key("detail"), Key("style")));
}

TEST_F(LoraFolderTest, AFileThatGrowsIsNeitherListedNorRefusedUntilItIsWhole) {
  const std::string whole = ReadFile(kStyle);
  for (size_t bytes = 1; bytes < whole.size(); bytes += whole.size() / 7) {
    Put("style.safetensors", whole.substr(0, bytes));
    EXPECT_FALSE(folder_.Look());
    EXPECT_THAT(folder_.refused(), IsEmpty()) << bytes;
    EXPECT_EQ(folder_.awaited(), 1u);
  }
  EXPECT_FALSE(folder_.Look());  // the copy stopped half-way
  EXPECT_THAT(folder_.refused(), ElementsAre(Key("style.safetensors")));
  Put("style.safetensors", whole);
  EXPECT_TRUE(Settle());
  EXPECT_THAT(folder_.refused(), IsEmpty());
  EXPECT_THAT(folder_.loras(), ElementsAre(Key("style")));
}

TEST_F(LoraFolderTest, WhatGoesVanishesAndWhatIsReplacedHasAnotherDigest) {
  Put("a.safetensors", ReadFile(kStyle));
  Put("b.safetensors", ReadFile(kStyle));
  ASSERT_TRUE(Settle());
  const std::shared_ptr<const Lora> running = folder_.loras().at("a");
  std::filesystem::remove(In("a.safetensors"));
  EXPECT_TRUE(folder_.Look());
  EXPECT_THAT(folder_.loras(), ElementsAre(Key("b")));
  WeightDeltas deltas;
  running->AddTo(1, deltas);  // users of a removed LoRA may continue
  EXPECT_THAT(LowRankDelta::Read(deltas.begin()->second).status(), IsOk());

  Put("b.next", ReadFile(kDetail));
  std::filesystem::rename(In("b.next"), In("b.safetensors"));
  EXPECT_TRUE(folder_.Look());  // the old file is gone, the new one not yet accepted
  EXPECT_THAT(folder_.loras(), IsEmpty());
  EXPECT_TRUE(folder_.Look());
  EXPECT_EQ(DigestOf("b"), "sha256:" + Sha256Hex(ReadFile(kDetail)));
  std::filesystem::remove_all(path_);
  EXPECT_TRUE(folder_.Look());
  EXPECT_THAT(folder_.loras(), IsEmpty());
}

TEST_F(LoraFolderTest, WhatIsWrongIsNamedAndNeverListed) {
  const std::string style = ReadFile(kStyle);
  Put("cut.safetensors", style.substr(0, style.size() / 2));
  Put("text.safetensors", "no safetensors file at all");
  Put("empty.safetensors", "");
  Put("header.safetensors", std::string("\xff\xff\xff\x04\x00\x00\x00\x00", 8) + std::string(100, '{'));
  Put("model.safetensors", ReadFile(kModel));
  Put("nan.safetensors", style.substr(0, style.size() - 4) + "\xff\xff\xff\xff");
  Put("taken.safetensors", style);
  Put("a:0.5.safetensors", style);
  Put(".hidden.safetensors", "no concern of the folder's");
  Put("notes.txt", "nor this");
  std::filesystem::create_directory(In("folder.safetensors"));
  WriteFile(directory_.File("outside.safetensors"), style);
  std::filesystem::create_symlink(directory_.File("outside.safetensors"), In("link.safetensors"));
  std::filesystem::create_symlink("nowhere", In("dangling.safetensors"));
  ASSERT_EQ(mkfifo(In("pipe.safetensors").c_str(), 0600), 0);
  EXPECT_FALSE(Settle());
  EXPECT_THAT(folder_.loras(), IsEmpty());
  EXPECT_THAT(folder_.refused(),
              ElementsAre(Pair("a:0.5.safetensors", HasSubstr("its name must be an id")),
                          Pair("cut.safetensors", HasSubstr("cut.safetensors: ")),
                          Pair("dangling.safetensors", HasSubstr("broken link")),
                          Pair("empty.safetensors", HasSubstr("not a safetensors file: 0 bytes")),
                          Pair("folder.safetensors", HasSubstr("not a regular file")),
                          Pair("header.safetensors", HasSubstr("header of 83886079 bytes")),
                          Pair("link.safetensors", HasSubstr("outside the folder")),
                          Pair("model.safetensors", HasSubstr("neither lora_A.weight nor lora_B.weight")),
                          Pair("nan.safetensors", HasSubstr("holds NaN or infinity")),
                          Pair("pipe.safetensors", HasSubstr("not a regular file")),
                          Pair("taken.safetensors", HasSubstr("rename the file")),
                          Pair("text.safetensors", HasSubstr("header of 8387222449776783214 bytes"))));
}

// Changes names in the header: a module that the model lacks, and a rank that differs between the two matrices.
TEST_F(LoraFolderTest, AForeignModuleAndAnotherRankAreNamed) {
  std::string foreign = ReadFile(kStyle), rank = foreign;
  const size_t module = foreign.find("transformer_blocks.0");
  ASSERT_NE(module, std::string::npos);
  for (size_t at = module; at != std::string::npos; at = foreign.find("transformer_blocks.0", at)) {
    foreign.replace(at, 20, "transformer_blocks.9");
  }
  Put("foreign.safetensors", foreign);
  const auto lora = *SafetensorsFile::Open(kStyle);
  std::vector<std::vector<char>> values;
  std::vector<std::pair<std::string, Tensor>> tensors;
  values.reserve(lora->tensors().size());
  bool first = true;
  for (const TensorInfo& tensor : lora->tensors()) {
    std::vector<char>& own = values.emplace_back(tensor.bytes);
    ASSERT_THAT(lora->Read(tensor, 0, tensor.bytes, own.data()), IsOk());
    Shape shape = tensor.shape;
    const bool less = first && tensor.name.ends_with("lora_A.weight") && shape[0] > 1;
    tensors.emplace_back(tensor.name, Tensor(tensor.dtype, less ? Shape{shape[0] - 1, shape[1]} : shape, own.data()));
    first = first && !less;
  }
  ASSERT_THAT(WriteSafetensors(In("rank.safetensors"), tensors), IsOk());
  EXPECT_FALSE(Settle());
  EXPECT_THAT(folder_.refused(), ElementsAre(Pair("foreign.safetensors", HasSubstr("this model has no module for it")),
                                             Pair("rank.safetensors", HasSubstr("their ranks differ"))));
}

// Names in a header may be as long as the header allows.
TEST_F(LoraFolderTest, WhatIsSaidOfARefusedFileIsShortAndItsHeaderIsBounded) {
  float value = 0;
  const Tensor one(DType::kF32, {1}, &value);
  ASSERT_THAT(WriteSafetensors(In("long.safetensors"), {{std::string(1'000'000, 'x'), one}}), IsOk());
  ASSERT_THAT(WriteSafetensors(In("large.safetensors"), {{std::string(2'200'000, 'x'), one}}), IsOk());
  std::vector<std::pair<std::string, Tensor>> many;
  for (size_t i = 0; i <= 4 * model_->tensors().size(); ++i) many.emplace_back(std::to_string(i) + ".alpha", one);
  ASSERT_THAT(WriteSafetensors(In("many.safetensors"), many), IsOk());
  EXPECT_FALSE(Settle());
  EXPECT_THAT(folder_.refused(),
              ElementsAre(Pair("large.safetensors", HasSubstr("bytes; a LoRA may have at most 2097152")),
                          Pair("long.safetensors", testing::SizeIs(LoraFolder::kMostWhyBytes)),
                          Pair("many.safetensors", HasSubstr("tensors; a LoRA of this model has at most "))));
}

TEST_F(LoraFolderTest, OneIdIsSoughtAloneAndWhatIsSaidMeanwhileEndsItForThisTime) {
  Put("style.safetensors", ReadFile(kStyle));
  Put("detail.safetensors", ReadFile(kDetail));
  int asked = 0;
  const auto go_on = [&] { return ++asked == 1 ? absl::CancelledError("enough") : absl::OkStatus(); };
  EXPECT_FALSE(folder_.LookAt("style", go_on));
  EXPECT_EQ(asked, 1);
  EXPECT_THAT(folder_.refused(), IsEmpty());
  EXPECT_TRUE(folder_.LookAt("style", go_on));
  EXPECT_GT(asked, 2);  // between its tensors, too
  EXPECT_THAT(folder_.loras(), ElementsAre(Key("style")));
  EXPECT_EQ(folder_.awaited(), 0u);  // nothing else was inspected
  for (const char* id : {"", "none", "taken", "../loras/detail", ".hidden"})
    EXPECT_FALSE(folder_.LookAt(id, go_on)) << id;
  Put("style.next", ReadFile(kDetail));
  std::filesystem::rename(In("style.next"), In("style.safetensors"));
  EXPECT_TRUE(folder_.LookAt("style", go_on));
  EXPECT_EQ(DigestOf("style"), "sha256:" + Sha256Hex(ReadFile(kDetail)));
}

TEST_F(LoraFolderTest, ALookTakesOneFileAtATime) {
  Put("a.safetensors", ReadFile(kStyle));
  Put("b.safetensors", ReadFile(kStyle));
  folder_.Look();
  const auto go_on = [] { return absl::OkStatus(); };
  EXPECT_FALSE(folder_.Begin());
  EXPECT_TRUE(folder_.Next(go_on));
  EXPECT_THAT(folder_.loras(), ElementsAre(Key("a")));
  ASSERT_TRUE(folder_.more());
  EXPECT_TRUE(folder_.Next(go_on));
  EXPECT_THAT(folder_.loras(), ElementsAre(Key("a"), Key("b")));
  EXPECT_FALSE(folder_.more());
}

TEST_F(LoraFolderTest, ALinkWithinTheFolderIsFollowed) {
  std::filesystem::create_directory(In("blobs"));
  Put("blobs/one", ReadFile(kStyle));
  std::filesystem::create_symlink("blobs/one", In("style.safetensors"));
  EXPECT_TRUE(Settle());
  EXPECT_THAT(folder_.loras(), ElementsAre(Key("style")));
}

TEST_F(LoraFolderTest, OfTenThousandFilesAsManyAreListedAsMayBeAndTheOthersWaitForTheirPlaces) {
  const std::string style = ReadFile(kStyle);
  Put("0", style);
  for (int i = 0; i < 10'000; ++i) std::filesystem::create_hard_link(In("0"), In(std::to_string(i) + ".safetensors"));
  EXPECT_TRUE(Settle());
  EXPECT_EQ(folder_.listed(), LoraFolder::kMostListed);
  EXPECT_EQ(folder_.awaited(), 10'000 - LoraFolder::kMostListed);
  EXPECT_FALSE(folder_.Look());
  const std::string gone = folder_.loras().begin()->first;
  std::filesystem::remove(In(gone + ".safetensors"));
  folder_.Look();  // removing a link changes the file's ctime, so all links are inspected again
  EXPECT_TRUE(folder_.Look());
  EXPECT_EQ(folder_.listed(), LoraFolder::kMostListed);
  EXPECT_FALSE(folder_.loras().contains(gone));
}

TEST(LoraFolder, AFolderThatIsNotThereIsNamed) {
  EXPECT_THAT(LoraFolder::Check("/none/such"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("lora_folder: ")));
  EXPECT_THAT(LoraFolder::Check(kStyle), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("lora_folder: ")));
}

}  // namespace
}  // namespace kinora
