#include "engine/weights/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/testing/status_matchers.h"
#include "tests/weights/test_files.h"

namespace kinora {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;

std::string Bytes(int n) {
  std::string data(n, '\0');
  for (int i = 0; i < n; ++i) data[i] = static_cast<char>(i + 1);
  return data;
}

// A header that must be rejected, and text that the error must contain besides the file's name.
struct Refused {
  const char* name;
  std::string header;
  int data_bytes;
  const char* message;
};
void PrintTo(const Refused& c, std::ostream* out) { *out << c.name; }

class RefusedHeaders : public testing::TestWithParam<Refused> {};

TEST_P(RefusedHeaders, NamesTheFileAndTheReason) {
  TempFolder folder;
  const std::string path =
      folder.Write("bad.safetensors", RawSafetensors(GetParam().header, Bytes(GetParam().data_bytes)));
  EXPECT_THAT(SafetensorsFile::Open(path),
              StatusIs(StatusCode::kInvalidArgument, AllOf(HasSubstr(path), HasSubstr(GetParam().message))));
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedHeaders,
    testing::Values(
        Refused{"empty", "", 0, "not valid JSON"}, Refused{"not_json", "{\"a\": ", 0, "not valid JSON"},
        Refused{"array", "[]", 0, "an array where none belongs"},
        Refused{"deep", std::string(200'000, '['), 0, "an array where none belongs"},
        Refused{"deep_objects", R"({"a":{"shape":{"b":{}}}})", 0, "tensor a: an object where none belongs"},
        Refused{"invalid_utf8", "{\"\xff\xfe\":{}}", 0, "not valid JSON"},
        Refused{"no_dtype", R"({"w":{"shape":[1],"data_offsets":[0,4]}})", 4, "tensor w: no dtype"},
        Refused{"no_shape", R"({"w":{"dtype":"F32","data_offsets":[0,4]}})", 4, "tensor w: no shape"},
        Refused{"no_offsets", R"({"w":{"dtype":"F32","shape":[1]}})", 4, "data_offsets must be two numbers"},
        Refused{"one_offset", R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "must be two numbers"},
        Refused{"unknown_field", R"({"w":{"dtype":"F32","shape":[1],"extra":[],"data_offsets":[0,4]}})", 4,
                "tensor w: unexpected field extra"},
        Refused{"unknown_dtype", R"({"w":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})", 8,
                "tensor w: dtype F64 is not supported"},
        Refused{"negative_shape", R"({"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4,
                "negative number -1"},
        Refused{"fraction", R"({"w":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4,
                "not a whole number: 1.5"},
        Refused{"beyond_64_bits", R"({"w":{"dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,4]}})", 4,
                "not a whole number"},
        Refused{"overflow", R"({"w":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0,
                "tensor w: shape [4611686018427387904, 4] is beyond 64 bits"},
        Refused{"seven_dimensions", R"({"w":{"dtype":"U8","shape":[1,1,1,1,1,1,1],"data_offsets":[0,1]}})", 1,
                "7 dimensions, at most 6"},
        Refused{"wrong_size", R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4,
                "tensor w: 4 bytes of data for F32 [2], which takes 8"},
        Refused{"beyond_the_end", R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4,
                "tensor w: data_offsets [0, 8] do not lie in the 4 bytes of data"},
        Refused{"reversed", R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "do not lie in"},
        Refused{
            "overlap",
            R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
            6, "tensor b: starts at byte 2, inside the tensor before it that ends at 4"},
        Refused{
            "gap",
            R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
            3, "tensor b: starts at byte 2, a gap"},
        Refused{"trailing_data", R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 3,
                "tensors end at byte 1 of 3"},
        Refused{
            "duplicate",
            R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
            1, "\"w\" occurs twice"},
        Refused{"metadata_number", R"({"__metadata__":{"a":1}})", 0, "a number where none belongs"}),
    [](const auto& info) { return info.param.name; });

TEST(Safetensors, AFileShorterThanItsHeaderIsRefusedWithoutReadingIt) {
  TempFolder folder;
  std::string file = RawSafetensors("{}", "");
  file[0] = 100;  // claims 100 bytes of header
  EXPECT_THAT(SafetensorsFile::Open(folder.Write("a.safetensors", file)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("truncated: header of 100 bytes in a file of 10")));
  file.replace(0, 8, 8, '\xff');
  EXPECT_THAT(SafetensorsFile::Open(folder.Write("b.safetensors", file)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("header of 18446744073709551615 bytes")));
  EXPECT_THAT(SafetensorsFile::Open(folder.Write("c.safetensors", "abc")),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("3 bytes")));
}

TEST(Safetensors, AHeaderOfCountlessTinyEntriesIsRefused) {
  std::string tensors = "{", metadata = R"({"__metadata__":{)";
  for (int i = 0; i < 100'100; ++i) {
    tensors += "\"" + std::to_string(i) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)";
    if (i < 10'100) metadata += "\"" + std::to_string(i) + "\":\"\",";
  }
  tensors.back() = metadata.back() = '}';
  EXPECT_THAT(ParseSafetensorsHeader(tensors, 0),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("more than 100000 tensors")));
  EXPECT_THAT(ParseSafetensorsHeader(metadata + "}", 0),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("more than 10000 entries")));
}

TEST(Safetensors, GgufIsRefusedByName) {
  TempFolder folder;
  EXPECT_THAT(SafetensorsFile::Open(folder.Write("model.gguf", std::string("GGUF\3\0\0\0 and more", 17))),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("GGUF is not supported")));
}

TEST(Safetensors, AMissingFileAndAFolderAreNamed) {
  TempFolder folder;
  EXPECT_THAT(SafetensorsFile::Open(folder.File("none")),
              StatusIs(StatusCode::kNotFound, HasSubstr(folder.File("none"))));
  EXPECT_THAT(SafetensorsFile::Open(folder.File("")),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("not a regular file")));
}

TEST(Safetensors, EveryDTypeOfTheFormatIsReadInPlace) {
  TempFolder folder;
  std::string header = R"({"__metadata__":{"model_version":"2.3.0"})";
  int64_t offset = 0;
  const std::vector<std::pair<std::string, int>> dtypes = {{"F32", 4},     {"F16", 2},     {"BF16", 2},
                                                           {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"I64", 8},
                                                           {"I32", 4},     {"U8", 1},      {"BOOL", 1}};
  for (const auto& [name, size] : dtypes) {
    header += ",\"" + name + "\":{\"dtype\":\"" + name + "\",\"shape\":[1,3],\"data_offsets\":[" +
              std::to_string(offset) + "," + std::to_string(offset + 3 * size) + "]}";
    offset += 3 * size;
  }
  const std::string data = Bytes(static_cast<int>(offset));
  KINORA_ASSERT_OK_AND_ASSIGN(auto file, SafetensorsFile::Open(folder.Write("a", RawSafetensors(header + "}", data))));
  EXPECT_EQ(file->metadata().at("model_version"), "2.3.0");
  ASSERT_EQ(file->tensors().size(), dtypes.size());
  int64_t position = 0;
  for (const auto& [name, size] : dtypes) {
    const TensorInfo* tensor = file->Find(name);
    ASSERT_NE(tensor, nullptr) << name;
    EXPECT_EQ(SafetensorsDTypeName(tensor->dtype), name);
    EXPECT_EQ(tensor->shape, Shape({1, 3}));
    std::string part(2 * size, '\0');
    ASSERT_THAT(file->Read(*tensor, size, 2 * size, part.data()), IsOk());
    EXPECT_EQ(part, data.substr(position + size, 2 * size)) << name;
    position += 3 * size;
  }
  EXPECT_EQ(file->Find("absent"), nullptr);
}

TEST(Safetensors, ScalarsAndEmptyTensorsAreTensors) {
  KINORA_ASSERT_OK_AND_ASSIGN(const SafetensorsHeader header,
                              ParseSafetensorsHeader(R"({"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]},
                                "e":{"dtype":"F32","shape":[0,8],"data_offsets":[4,4]}} )",
                                                     4));
  EXPECT_EQ(header.tensors[0].shape.rank(), 0);
  EXPECT_EQ(header.tensors[1].bytes, 0);
}

TEST(Safetensors, AFileThatShrinksAfterOpeningIsDataLoss) {
  TempFolder folder;
  const std::string path =
      folder.Write("a", RawSafetensors(R"({"w":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})", Bytes(8)));
  KINORA_ASSERT_OK_AND_ASSIGN(auto file, SafetensorsFile::Open(path));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 3);
  char out[8];
  EXPECT_THAT(
      file->Read(*file->Find("w"), 0, 8, out),
      StatusIs(StatusCode::kDataLoss, AllOf(HasSubstr(path), HasSubstr("tensor w"), HasSubstr("3 bytes early"))));
}

TEST(SafetensorsWriter, WhatIsWrittenIsReadBack) {
  TempFolder folder;
  std::vector<float> a = {1, 2, 3, 4, 5, 6};
  std::vector<int64_t> ids = {7, -8};
  const std::string path = folder.File("out.safetensors");
  ASSERT_THAT(WriteSafetensors(
                  path, {{"a", Tensor(DType::kF32, {2, 3}, a.data())}, {"ids", Tensor(DType::kI64, {2}, ids.data())}},
                  {{"note", "tab\t\"quoted\""}}),
              IsOk());
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
  KINORA_ASSERT_OK_AND_ASSIGN(auto file, SafetensorsFile::Open(path));
  EXPECT_EQ(file->metadata().at("note"), "tab\t\"quoted\"");
  std::vector<float> read(6);
  ASSERT_THAT(file->Read(*file->Find("a"), 0, 24, read.data()), IsOk());
  EXPECT_EQ(read, a);
  std::vector<int64_t> read_ids(2);
  ASSERT_THAT(file->Read(*file->Find("ids"), 0, 16, read_ids.data()), IsOk());
  EXPECT_EQ(read_ids, ids);
}

TEST(SafetensorsWriter, TensorsMayBeFilledInPiecesAndInAnyOrder) {
  TempFolder folder;
  const std::string path = folder.File("out.safetensors");
  SafetensorsWriter writer;
  writer.Declare("first", DType::kU8, {4});
  writer.Declare("second", DType::kU8, {2});
  ASSERT_THAT(writer.Open(path), IsOk());
  ASSERT_THAT(writer.Append("second", "yz", 2), IsOk());
  ASSERT_THAT(writer.Append("first", "ab", 2), IsOk());
  EXPECT_THAT(writer.Close(), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("tensor first: 2 of 4 bytes")));
  EXPECT_THAT(writer.Append("first", "cde", 3), StatusIs(StatusCode::kInvalidArgument, HasSubstr("tensor first")));
  ASSERT_THAT(writer.Append("first", "cd", 2), IsOk());
  ASSERT_THAT(writer.Close(), IsOk());
  KINORA_ASSERT_OK_AND_ASSIGN(auto file, SafetensorsFile::Open(path));
  char out[4];
  ASSERT_THAT(file->Read(*file->Find("first"), 0, 4, out), IsOk());
  EXPECT_EQ(std::string(out, 4), "abcd");
}

TEST(SafetensorsWriter, AnUnfinishedFileIsRemoved) {
  TempFolder folder;
  {
    SafetensorsWriter writer;
    writer.Declare("w", DType::kU8, {4});
    ASSERT_THAT(writer.Open(folder.File("out")), IsOk());
    EXPECT_TRUE(std::filesystem::exists(folder.File("out.partial")));
  }
  EXPECT_FALSE(std::filesystem::exists(folder.File("out.partial")));
  EXPECT_FALSE(std::filesystem::exists(folder.File("out")));
}

TEST(ShardIndex, OpensEachShardOnceAndChecksEveryName) {
  TempFolder folder;
  uint8_t bytes[2] = {1, 2};
  ASSERT_THAT(WriteSafetensors(folder.File("one"),
                               {{"a", Tensor(DType::kU8, {1}, bytes)}, {"b", Tensor(DType::kU8, {1}, bytes)}}),
              IsOk());
  ASSERT_THAT(WriteSafetensors(folder.File("two"), {{"c", Tensor(DType::kU8, {2}, bytes)}}), IsOk());
  const auto open = [&](const char* map) { return OpenSafetensors(folder.Write("m.index.json", map)); };
  KINORA_ASSERT_OK_AND_ASSIGN(auto files, open(R"({"metadata":{},"weight_map":{"a":"one","b":"one","c":"two"}})"));
  EXPECT_EQ(files.size(), 2);
  EXPECT_THAT(open(R"({"weight_map":{"a":"one","b":"one"}})"), IsOk());
  EXPECT_THAT(open(R"({"weight_map":{"a":"one","b":"one","d":"two"}})"),
              StatusIs(StatusCode::kInvalidArgument, AllOf(HasSubstr("tensor d is missing"), HasSubstr("two"))));
  EXPECT_THAT(open(R"({"weight_map":{"a":"one"}})"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("tensor b is not in")));
  EXPECT_THAT(open(R"({"weight_map":{"a":"../one"}})"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("not a plain file name")));
  EXPECT_THAT(open(R"({"weight_map":{"a":3}})"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("weight_map.a: not a string")));
  EXPECT_THAT(open(R"({"weight_map":{"a":"three"}})"), StatusIs(StatusCode::kNotFound, HasSubstr("three")));
  EXPECT_THAT(open("[]"), StatusIs(StatusCode::kInvalidArgument, HasSubstr("weight_map is missing")));
  EXPECT_THAT(open(std::string(100, '[').c_str()), StatusIs(StatusCode::kInvalidArgument, HasSubstr("nested deeper")));
}

}  // namespace
}  // namespace kinora
