// PNG frames (folder and ZIP) and WAV.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "engine/media/png_sink.h"
#include "engine/media/zip_writer.h"
#include "tests/media/clip_fixtures.h"
#include "tests/testing/full_disk.h"

namespace kinora {
namespace {

using ::testing::HasSubstr;

constexpr ClipInfo kClip = {.width = 64,
                            .height = 32,
                            .num_frames = 9,
                            .frame_rate = 24,
                            .audio_sample_rate = 24000,
                            .audio_channels = 2,
                            .audio_samples = 9001};

template <typename T>
T Read(const std::string& bytes, size_t at) {
  T value;
  EXPECT_LE(at + sizeof value, bytes.size());
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// Reads members from the central directory, as readers do; follows ZIP64 fields.
std::map<std::string, std::string> ReadZip(const std::string& bytes) {
  std::map<std::string, std::string> members;
  const size_t end = bytes.rfind("PK\5\6");
  uint64_t at = Read<uint32_t>(bytes, end + 16), count = Read<uint16_t>(bytes, end + 10);
  if (count == 0xffff) {
    const size_t locator = end - 20;
    EXPECT_EQ(bytes.substr(locator, 4), "PK\6\7");
    const auto record = Read<uint64_t>(bytes, locator + 8);
    EXPECT_EQ(bytes.substr(record, 4), "PK\6\6");
    count = Read<uint64_t>(bytes, record + 32);
    at = Read<uint64_t>(bytes, record + 48);
  }
  for (uint64_t i = 0; i < count; ++i) {
    EXPECT_EQ(bytes.substr(at, 4), "PK\1\2");
    const auto name_bytes = Read<uint16_t>(bytes, at + 28), extra = Read<uint16_t>(bytes, at + 30);
    const auto size = Read<uint32_t>(bytes, at + 24);
    uint64_t offset = Read<uint32_t>(bytes, at + 42);
    const std::string name = bytes.substr(at + 46, name_bytes);
    if (offset == 0xffffffff) offset = Read<uint64_t>(bytes, at + 46 + name_bytes + 4);
    EXPECT_EQ(Read<uint16_t>(bytes, offset + 8), 0) << "stored";
    members[name] = bytes.substr(offset + 30 + name_bytes, size);
    EXPECT_EQ(Read<uint32_t>(bytes, at + 16), Crc32(members[name]));
    at += 46 + name_bytes + extra;
  }
  return members;
}

void ExpectPngEquals(std::string_view png, TestClip& clip, int64_t frame) {
  int64_t width = 0, height = 0;
  const std::vector<uint8_t> rgb = DecodePng(png, width, height);
  EXPECT_EQ(width, kClip.width);
  EXPECT_EQ(height, kClip.height);
  EXPECT_EQ(std::memcmp(rgb.data(), clip.FrameTensor(frame, frame + 1).data<uint8_t>(), rgb.size()), 0) << frame;
}

TEST(PngSinkTest, TheZipHoldsEveryFrameExactly) {
  TestClip clip = MakeTestClip(kClip);
  const std::string path = TempPath("frames.zip");
  ASSERT_TRUE(WriteClip(clip, path, {.container = Container::kPngFrames}).ok());
  const auto members = ReadZip(ReadFile(path));
  ASSERT_EQ(members.size(), 9u);
  EXPECT_EQ(members.begin()->first, "000000.png");
  EXPECT_EQ(members.rbegin()->first, "000008.png");
  int64_t frame = 0;
  for (const auto& [name, png] : members) ExpectPngEquals(png, clip, frame++);
}

TEST(PngSinkTest, AFolderGetsTheSameFiles) {
  TestClip clip = MakeTestClip(kClip);
  const std::string folder = TempPath("frames"), zip = TempPath("same.zip");
  ASSERT_EQ(mkdir(folder.c_str(), 0755), 0);
  ASSERT_EQ(ContainerForPath(folder).value(), Container::kPngFolder);
  ASSERT_TRUE(WriteClip(clip, folder, {.container = Container::kPngFolder}).ok());
  ASSERT_TRUE(WriteClip(clip, zip, {.container = Container::kPngFrames}).ok());
  for (const auto& [name, png] : ReadZip(ReadFile(zip)))
    EXPECT_EQ(ReadFile(absl::StrCat(folder, "/", name)), png) << name;
  EXPECT_NE(access((folder + "/000009.png").c_str(), F_OK), 0);
}

// All pictures in the folder belong to one clip, so that they can be assembled to a film.
TEST(PngSinkTest, AFolderHoldsOneClipAndNobodyElsesFiles) {
  const std::string folder = TempPath("again");
  ASSERT_EQ(mkdir(folder.c_str(), 0755), 0);
  const FileSinkOptions options{.container = Container::kPngFolder};
  TestClip longer = MakeTestClip(kClip);
  ASSERT_TRUE(WriteClip(longer, folder, options).ok());
  const std::string beside = absl::StrCat(folder, "/", std::string(32, 'a'), ".trace.json");
  std::ofstream(beside) << "{}";
  ClipInfo short_clip = kClip;
  short_clip.num_frames = 1;
  TestClip shorter = MakeTestClip(short_clip);
  ASSERT_TRUE(WriteClip(shorter, folder, options).ok());
  EXPECT_EQ(access((folder + "/000000.png").c_str(), F_OK), 0);
  EXPECT_NE(access((folder + "/000001.png").c_str(), F_OK), 0);
  EXPECT_NE(access((folder + "/000008.png").c_str(), F_OK), 0);
  EXPECT_EQ(access(beside.c_str(), F_OK), 0);
  for (const char* name : {"holiday.png", "1.png", "0000001.png", "notes.txt"}) {
    const std::string other = absl::StrCat(folder, "/", name);
    std::ofstream(other) << "mine";
    const absl::Status status = WriteClip(longer, folder, options);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(name));
    EXPECT_NE(access((folder + "/000001.png").c_str(), F_OK), 0);  // nothing was written
    EXPECT_EQ(ReadFile(other), "mine");
    unlink(other.c_str());
  }
}

TEST(PngSinkTest, AClipThatFailsOnItsWayLeavesOnlyItsOwnFrames) {
  const std::string folder = TempPath("halfway");
  ASSERT_EQ(mkdir(folder.c_str(), 0755), 0);
  const FileSinkOptions options{.container = Container::kPngFolder};
  TestClip older = MakeTestClip(kClip);
  ASSERT_TRUE(WriteClip(older, folder, options).ok());
  PngSink sink(folder, options);
  ASSERT_TRUE(sink.Begin(kClip).ok());
  EXPECT_EQ(access((folder + "/000008.png").c_str(), F_OK), 0);  // no frame of the new clip exists yet
  ASSERT_TRUE(sink.Frames(0, older.FrameTensor(0, 1)).ok());
  EXPECT_EQ(access((folder + "/000000.png").c_str(), F_OK), 0);
  EXPECT_NE(access((folder + "/000001.png").c_str(), F_OK), 0);
}

TEST(PngSinkTest, EqualClipsMakeEqualBytesAndTextIsWrittenWhenAsked) {
  TestClip clip = MakeTestClip(kClip);
  const FileSinkOptions options{
      .container = Container::kPngFrames, .parameters = "{\"seed\":\"7\"}", .prompt = "a lighthouse"};
  ASSERT_TRUE(WriteClip(clip, TempPath("a.zip"), options).ok());
  ASSERT_TRUE(WriteClip(clip, TempPath("b.zip"), options).ok());
  const std::string bytes = ReadFile(TempPath("a.zip"));
  EXPECT_EQ(bytes, ReadFile(TempPath("b.zip")));
  const auto members = ReadZip(bytes);
  EXPECT_THAT(members.at("000003.png"), HasSubstr(std::string("iTXtComment\0\0\0\0\0{\"seed\":\"7\"}", 28)));
  EXPECT_THAT(members.at("000003.png"), HasSubstr("a lighthouse"));
  ExpectPngEquals(members.at("000003.png"), clip, 3);
}

TEST(PngSinkTest, SoundAloneHasNoFrames) {
  ClipInfo info = kClip;
  info.width = info.height = info.num_frames = 0;
  TestClip clip = MakeTestClip(info);
  EXPECT_EQ(WriteClip(clip, TempPath("none.zip"), {.container = Container::kPngFrames}).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ZipWriterTest, PastTheLimitsZip64RecordsAreWritten) {
  const std::string path = TempPath("large.zip");
  auto zip = ZipWriter::Create(path, /*zip64_from=*/40);
  ASSERT_TRUE(zip.ok());
  for (const char* name : {"one", "two", "three"}) ASSERT_TRUE(zip->Add(name, std::string(name) + " content").ok());
  ASSERT_TRUE(zip->Finish().ok());
  EXPECT_THAT(ReadZip(ReadFile(path)),
              testing::ElementsAre(testing::Pair("one", "one content"), testing::Pair("three", "three content"),
                                   testing::Pair("two", "two content")));
}

TEST(ZipWriterTest, ADiskThatIsFullIsResourceExhausted) {
  const std::string disk = TempPath("disk"), path = disk + "/full.zip";
  ASSERT_EQ(mkdir(disk.c_str(), 0700), 0);
  const auto result = OnSmallDisk(disk, 64 << 10, [&]() -> std::string {
    auto zip = ZipWriter::Create(path);
    if (!zip.ok()) return zip.status().ToString();
    const absl::Status status = zip->Add("a", std::string(1 << 20, 'x'));
    if (status.code() != absl::StatusCode::kResourceExhausted) return status.ToString();
    return std::string(status.message()).find(path) == std::string::npos ? status.ToString() : "";
  });
  if (result == SmallDiskResult::kNotPermitted) GTEST_SKIP() << "no mount namespaces here";
  EXPECT_EQ(result, SmallDiskResult::kPassed);
}

TEST(ZipWriterTest, CrcIsTheOneOfIeee802) { EXPECT_EQ(Crc32("123456789"), 0xcbf43926u); }

TEST(WavSinkTest, HoldsEverySampleInSixteenBits) {
  TestClip clip = MakeTestClip(kClip);
  clip.waveform[5] = 1.5f;  // clamped
  const std::string path = TempPath("sound.wav");
  ASSERT_TRUE(WriteClip(clip, path, {.container = Container::kWav}).ok());
  const std::string bytes = ReadFile(path);
  EXPECT_EQ(bytes.substr(0, 4), "RIFF");
  EXPECT_EQ(Read<uint32_t>(bytes, 4), bytes.size() - 8);
  EXPECT_EQ(Read<uint16_t>(bytes, 20), 1);  // PCM
  EXPECT_EQ(Read<uint16_t>(bytes, 22), 2);  // channels
  EXPECT_EQ(Read<uint32_t>(bytes, 24), 24000u);
  EXPECT_EQ(Read<uint32_t>(bytes, 28), 96000u);  // bytes per second
  ASSERT_EQ(bytes.substr(36, 4), "data");
  ASSERT_EQ(Read<uint32_t>(bytes, 40), 9001u * 4);
  for (int64_t s = 0; s < 9001; ++s) {
    for (int64_t c = 0; c < 2; ++c) {
      const float expected = std::min(clip.waveform[c * 9001 + s], 1.0f);
      EXPECT_NEAR(Read<int16_t>(bytes, 44 + 4 * s + 2 * c) / 32767.0, expected, 0.5 / 32767 + 1e-7);
    }
  }
}

TEST(WavSinkTest, MetadataGoesIntoAListChunk) {
  TestClip clip = MakeTestClip(kClip);
  const std::string path = TempPath("tagged.wav");
  ASSERT_TRUE(WriteClip(clip, path, {.container = Container::kWav, .parameters = "{}", .prompt = "rain"}).ok());
  const std::string bytes = ReadFile(path);
  EXPECT_THAT(bytes, HasSubstr(std::string("LIST\x1e\0\0\0INFOICMT\3\0\0\0{}\0\0ISBJ\5\0\0\0rain\0\0", 38)));
}

TEST(WavSinkTest, RefusesAClipWithoutSound) {
  ClipInfo info = kClip;
  info.audio_channels = 0;
  TestClip clip = MakeTestClip(info);
  EXPECT_EQ(WriteClip(clip, TempPath("mute.wav"), {.container = Container::kWav}).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ContainerForPathTest, FollowsTheEnding) {
  EXPECT_EQ(ContainerForPath("a.mp4").value(), Container::kMp4);
  EXPECT_EQ(ContainerForPath("a.WEBM").value(), Container::kWebm);
  EXPECT_EQ(ContainerForPath("a.zip").value(), Container::kPngFrames);
  EXPECT_EQ(ContainerForPath("a.wav").value(), Container::kWav);
  EXPECT_EQ(ContainerForPath("a/").value(), Container::kPngFolder);
  EXPECT_THAT(std::string(ContainerForPath("a.avi").status().message()), HasSubstr("a.avi"));
}

}  // namespace
}  // namespace kinora
