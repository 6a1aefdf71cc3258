#include "server/worker/model_digests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "server/common/sha256.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using absl::StatusCode;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

// Returns a safetensors file without its data: the header of one tensor of `bytes` bytes.
std::string HeaderOf(const std::string& tensor, int64_t bytes) {
  const std::string size = std::to_string(bytes);
  std::string header =
      "{\"" + tensor + "\":{\"dtype\":\"U8\",\"shape\":[" + size + "],\"data_offsets\":[0," + size + "]}}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string file(8, '\0');
  for (int i = 0; i < 8; ++i) file[i] = static_cast<char>(static_cast<uint64_t>(header.size()) >> (8 * i));
  return file + header;
}

// The tensor is named like the file, because no two files may contain the same tensor.
std::string WriteModel(const TemporaryDirectory& directory, const std::string& name, std::string_view text) {
  std::string path = directory.File(name);
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::string key = name;
  std::replace(key.begin(), key.end(), '/', '.');
  WriteFile(path, HeaderOf("vae." + key, static_cast<int64_t>(text.size())) + std::string(text));
  return path;
}

TEST(ModelDigests, AFileIsNamedWithTheShaOfAllItsBytes) {
  TemporaryDirectory directory;
  const std::string path = WriteModel(directory, "model.safetensors", "weights");
  ModelDigests digests({.paths = {path}});
  // Computed with Python's hashlib over the file's bytes.
  KINORA_ASSERT_OK_AND_ASSIGN(const ModelDigests::Map map, digests.Wait());
  EXPECT_THAT(
      map, UnorderedElementsAre(
               Pair("model.safetensors", "sha256:1bd898b0069fbb611f882046701f35e45becb619e48eea9c5f5f8d76cb324551")));
}

TEST(ModelDigests, FilesOfOneNameAreToldApartByTheirFolders) {
  TemporaryDirectory directory;
  ModelFiles files;
  for (const char* folder : {"a/x", "b/y", "c/y", "d/y"}) {
    files.paths.push_back(WriteModel(directory, std::string(folder) + "/model.safetensors", folder));
  }
  ModelDigests digests(files);
  KINORA_ASSERT_OK_AND_ASSIGN(const ModelDigests::Map map, digests.Wait());
  std::set<std::string> names, values;
  for (const auto& [name, digest] : map) {
    names.insert(name);
    values.insert(digest);
  }
  EXPECT_THAT(names, UnorderedElementsAre("model.safetensors", "y/model.safetensors", "c/y/model.safetensors",
                                          "d/y/model.safetensors"));
  EXPECT_EQ(values.size(), 4u);
}

TEST(ModelDigests, ATextEncodersConfigAndTokenizerBelongToTheModel) {
  const std::string tiny = std::string(KINORA_SOURCE_DIR "/models/tiny/");
  ModelDigests digests({.paths = {tiny + "ltx-2.3-tiny-dev.safetensors"}, .text_encoder = tiny + "gemma"});
  KINORA_ASSERT_OK_AND_ASSIGN(const ModelDigests::Map map, digests.Wait());
  for (const char* name :
       {"ltx-2.3-tiny-dev.safetensors", "model.safetensors", "tokenizer.model", "text_encoder/config.json"}) {
    ASSERT_TRUE(map.contains(name)) << name;
    EXPECT_EQ(map.at(name).size(), std::string("sha256:").size() + 64) << map.at(name);
  }
  EXPECT_EQ(map.size(), 4u);
}

TEST(ModelDigests, ALoraIsNamedByItsId) {
  TemporaryDirectory directory;
  ModelFiles files{.paths = {WriteModel(directory, "model.safetensors", "weights")}};
  files.loras = {{.id = "kite", .path = WriteModel(directory, "a.safetensors", "one")},
                 {.id = "sea", .path = WriteModel(directory, "b.safetensors", "one")}};
  ModelDigests digests(files);
  KINORA_ASSERT_OK_AND_ASSIGN(const ModelDigests::Map map, digests.Wait());
  EXPECT_THAT(map, UnorderedElementsAre(Pair("model.safetensors", testing::_), Pair("lora/kite", testing::_),
                                        Pair("lora/sea", testing::_)));
  EXPECT_NE(map.at("lora/kite"), map.at("lora/sea"));
}

TEST(DigestOfFile, IsOfWhatWasThereWhenItWasOpenedAndEndsWhenItIsTold) {
  TemporaryDirectory directory;
  const std::string path = directory.File("grows"), first(9 << 20, 'a');
  WriteFile(path, first);
  std::string all = first;
  const auto grow = [&] {
    WriteFile(path, all += std::string(1 << 20, 'b'));
    return absl::OkStatus();
  };
  EXPECT_THAT(DigestOfFile(path, grow), IsOkAndHolds("sha256:" + Sha256Hex(first)));
  int pieces = 0;
  EXPECT_THAT(DigestOfFile(path, [&] { return ++pieces == 2 ? absl::CancelledError("enough") : absl::OkStatus(); }),
              StatusIs(StatusCode::kCancelled, HasSubstr("enough")));
  ASSERT_EQ(mkfifo(directory.File("pipe").c_str(), 0600), 0);
  EXPECT_THAT(DigestOfFile(directory.File("pipe"), [] { return absl::OkStatus(); }),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("not a regular file")));
}

// Every rank uses these LoRA digests; only rank 0 reads the other files.
TEST(DigestOfHeaders, GivesTheDigestOfEachLoraAsModelDigestsDoes) {
  TemporaryDirectory directory;
  ModelFiles files{.paths = {WriteModel(directory, "model.safetensors", "weights")}};
  files.loras = {{.id = "kite", .path = WriteModel(directory, "a.safetensors", "one")},
                 {.id = "sea", .path = WriteModel(directory, "b.safetensors", "two")}};
  ModelDigests::Map loras;
  ASSERT_THAT(DigestOfHeaders(files, &loras), IsOkAndHolds(testing::_));
  ModelDigests digests(files);
  KINORA_ASSERT_OK_AND_ASSIGN(ModelDigests::Map all, digests.Wait());
  EXPECT_EQ(all.erase("model.safetensors"), 1u);
  EXPECT_EQ(loras, all);
}

TEST(DigestOfHeaders, DiffersWithWhatALoraHolds) {
  const auto digest = [](const char* weights) {
    TemporaryDirectory directory;
    ModelFiles files{.paths = {WriteModel(directory, "model.safetensors", "weights")}};
    files.loras = {{.id = "kite", .path = WriteModel(directory, "a.safetensors", weights)}};
    return DigestOfHeaders(files).value();
  };
  EXPECT_EQ(digest("one"), digest("one"));
  EXPECT_NE(digest("one"), digest("two"));
}

TEST(ModelDigests, AFileThatIsNotThereIsNamed) {
  TemporaryDirectory directory;
  ModelDigests digests({.paths = {directory.File("gone.safetensors")}});
  EXPECT_THAT(digests.Wait(), StatusIs(StatusCode::kNotFound, HasSubstr("gone.safetensors")));
}

// Covers everything that distinguishes two models before their weights are read: names, sizes and shapes of files and
// tensors, and the text encoder's tokenizer.
TEST(DigestOfHeaders, IsEqualForCopiesAndDiffersWithEachHeader) {
  const std::string tiny = std::string(KINORA_SOURCE_DIR "/models/tiny/");
  TemporaryDirectory one, two, longer, renamed;
  const auto of = [&](const std::string& path) {
    const absl::StatusOr<std::string> digest = DigestOfHeaders({.paths = {path}});
    EXPECT_THAT(digest, IsOk());
    return digest.value_or("");
  };
  const std::string digest = of(WriteModel(one, "model.safetensors", "weights"));
  EXPECT_EQ(of(WriteModel(two, "model.safetensors", "WEIGHTS")), digest);  // excludes the weights
  EXPECT_NE(of(WriteModel(longer, "model.safetensors", "weights of more")), digest);
  EXPECT_NE(of(WriteModel(renamed, "other.safetensors", "weights")), digest);

  TemporaryDirectory encoder;
  std::filesystem::copy(tiny + "gemma", encoder.File("gemma"));
  const ModelFiles files{.paths = {tiny + "ltx-2.3-tiny-dev.safetensors"}, .text_encoder = encoder.File("gemma")};
  KINORA_ASSERT_OK_AND_ASSIGN(const std::string whole, DigestOfHeaders(files));
  EXPECT_THAT(DigestOfHeaders({.paths = files.paths, .text_encoder = tiny + "gemma"}), IsOkAndHolds(whole));
  std::ofstream(encoder.File("gemma/tokenizer.model"), std::ios::app) << "more";
  EXPECT_THAT(DigestOfHeaders(files), IsOkAndHolds(testing::Ne(whole)));
}

TEST(DigestOfHeaders, AFileThatIsNotThereIsNamed) {
  TemporaryDirectory directory;
  EXPECT_THAT(DigestOfHeaders({.paths = {directory.File("gone.safetensors")}}),
              StatusIs(StatusCode::kNotFound, HasSubstr("gone.safetensors")));
}

// A sparse file of one terabyte: reading it would exceed the test's time.
TEST(ModelDigests, AnEndBeforeAllIsReadDoesNotWaitForTheRest) {
  constexpr int64_t kBytes = int64_t{1} << 40;
  TemporaryDirectory directory;
  const std::string path = directory.File("large.safetensors"), header = HeaderOf("vae.large", kBytes);
  WriteFile(path, header);
  std::filesystem::resize_file(path, header.size() + kBytes);
  const ModelDigests digests({.paths = {path}});
}

}  // namespace
}  // namespace kinora
