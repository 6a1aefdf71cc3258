// Decoding of pictures, clips and sounds, compared with the reference (see make_goldens.py), and of invalid files.
#include "server/decode/decoder.h"

#include <gmock/gmock.h>

#include <cstdarg>
#include <cstdio>
#include <limits>

#include "engine/media/av.h"
#include "engine/request/cover_and_crop.h"
#include "tests/server/decode/decode_fixture.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::SizeIs;

std::vector<uint8_t> PixelsOf(const std::string& name, int crf = 0) {
  const std::string bytes = ReadFile(DataPath(name));
  DecodeRequest request = WholeRequest(bytes);
  request.crf = crf;
  const auto decoded = DecodeHere(bytes, request);
  EXPECT_TRUE(decoded.ok()) << name << ": " << decoded.status();
  return decoded.ok() ? decoded->pictures.at(0) : std::vector<uint8_t>();
}

// Returns dB; infinity if equal, -infinity if the sizes differ.
double Psnr(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  if (a.empty() || a.size() != b.size()) return -std::numeric_limits<double>::infinity();
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return 10 * std::log10(255.0 * 255.0 * static_cast<double>(a.size()) / sum);
}

TEST(Decoder, AnImageWithoutLossesAndWithoutAProfileIsExactlyTheReferences) {
  for (const char* name : {"camera.png", "alpha.png", "grey.png", "palette.png", "bits.png", "lossless.webp"}) {
    EXPECT_EQ(PixelsOf(name), PixelsOf(absl::StrCat(name, ".rgb.png"))) << name;
  }
}

TEST(Decoder, CoverAndCropIsTheReferencesToTheLastBitOfFloat32) {
  const std::string bytes = ReadFile(DataPath("camera.png")), golden = ReadFile(DataPath("resized.f32"));
  KINORA_ASSERT_OK_AND_ASSIGN(const Decoded decoded, DecodeHere(bytes, {.most_pictures = 1}));
  std::vector<float> expected(golden.size() / sizeof(float));
  std::memcpy(expected.data(), golden.data(), golden.size());
  EXPECT_EQ(decoded.info.width, 120);
  EXPECT_EQ(decoded.info.height, 90);
  const RgbView picture{.rgb = decoded.pictures.at(0).data(), .width = 120, .height = 90};
  EXPECT_THAT(CoverAndCrop(picture, {.width = 56, .height = 40}),
              testing::Pointwise(testing::FloatNear(1e-6), expected));
}

TEST(Decoder, PhotosProfilesAndTheH264PassAreWithin40DecibelsOfTheReferences) {
  for (const char* name : {"photo.jpg", "photo_444.jpg", "photo_progressive.jpg", "grey.jpg", "photo.webp",
                           "profile.png", "photo_profile.jpg"}) {
    const double psnr = Psnr(PixelsOf(name), PixelsOf(absl::StrCat(name, ".rgb.png")));
    EXPECT_GE(psnr, 40) << name;
    RecordProperty(name, absl::StrCat(psnr));
    std::cout << name << ": " << psnr << " dB\n";
  }
  // The profile must have an effect, or the test would not notice if it were ignored.
  EXPECT_LT(Psnr(PixelsOf("profile.png"), PixelsOf("camera.png")), 35);
  for (const int crf : {18, 33}) {
    const double psnr = Psnr(PixelsOf("camera.png", crf), PixelsOf(absl::StrCat("camera_crf", crf, ".rgb.png")));
    EXPECT_GE(psnr, 40) << crf;
    std::cout << "crf " << crf << ": " << psnr << " dB\n";
  }
  EXPECT_LT(Psnr(PixelsOf("camera.png", 33), PixelsOf("camera.png")), 40);  // the H.264 pass must have an effect
}

TEST(Decoder, PhotosAreTurnedUpright) {
  for (const int orientation : {1, 3, 6, 8}) {
    const std::string name = absl::StrCat("orientation_", orientation, ".jpg");
    KINORA_ASSERT_OK_AND_ASSIGN(const Decoded decoded, DecodeHere(ReadFile(DataPath(name)), {.most_pictures = 1}));
    EXPECT_EQ(decoded.info.width, orientation < 6 ? 120 : 90) << name;
    EXPECT_GE(Psnr(PixelsOf(name), PixelsOf(name + ".rgb.png")), 40) << name;
  }
}

TEST(Decoder, AClipsPicturesComeInOrderUpToTheLastAskedFor) {
  for (const char* name : {"clip.mp4", "clip.webm"}) {
    SCOPED_TRACE(name);
    const std::string bytes = ReadFile(DataPath(name));
    DecodeRequest request{.most_pictures = 100};
    KINORA_ASSERT_OK_AND_ASSIGN(const Decoded all, DecodeHere(bytes, request));
    ASSERT_THAT(all.pictures, SizeIs(9));
    EXPECT_NEAR(all.info.frames_per_second, 24, 0.01);
    EXPECT_NE(all.pictures[3], all.pictures[2]);
    request.most_pictures = 4;
    KINORA_ASSERT_OK_AND_ASSIGN(const Decoded some, DecodeHere(bytes, request));
    ASSERT_THAT(some.pictures, SizeIs(4));
    EXPECT_EQ(some.pictures[3], all.pictures[3]);
  }
}

TEST(Decoder, ASoundsSamplesAreInterleavedAndCutToWhatWasAskedFor) {
  for (const char* name : {"sound.wav", "sound.flac", "sound.mp3", "sound.aac", "sound.m4a"}) {
    SCOPED_TRACE(name);
    const std::string bytes = ReadFile(DataPath(name));
    DecodeRequest request{.sound = 1, .most_seconds = 60};
    KINORA_ASSERT_OK_AND_ASSIGN(const Decoded all, DecodeHere(bytes, request));
    EXPECT_EQ(all.info.channels, 2);
    EXPECT_EQ(all.info.samples_per_second, 16000);
    EXPECT_NEAR(static_cast<double>(all.samples.size()) / 2, 8000, 2400);  // codecs add their delay
    const bool exact = std::string(name) == "sound.wav" || std::string(name) == "sound.flac";
    if (exact) {
      for (int i = 0; i < 8000; ++i) {
        ASSERT_NEAR(all.samples[2 * i], 0.5 * std::sin(2 * M_PI * 440 * i / 16000), 1e-4) << i;
        ASSERT_NEAR(all.samples[2 * i + 1], 0.5 * std::sin(2 * M_PI * 660 * i / 16000), 1e-4) << i;
      }
    }
    request.most_seconds = 0.25;
    KINORA_ASSERT_OK_AND_ASSIGN(const Decoded some, DecodeHere(bytes, request));
    ASSERT_THAT(some.samples, SizeIs(2 * 4000));
    EXPECT_TRUE(!exact || std::equal(some.samples.begin(), some.samples.end(), all.samples.begin()));
  }
}

const char* const kFiles[] = {"camera.png", "palette.png",   "profile.png", "photo.jpg", "photo_progressive.jpg",
                              "photo.webp", "lossless.webp", "clip.mp4",    "clip.webm", "sound.wav",
                              "sound.flac", "sound.mp3",     "sound.aac",   "sound.m4a"};

// A file that is truncated or has changed bytes anywhere is decoded or rejected with a readable error.
TEST(Decoder, DamagedFilesOfEveryTypeAreDecodedOrRefused) {
  for (const char* name : kFiles) {
    SCOPED_TRACE(name);
    const std::string bytes = ReadFile(DataPath(name));
    DecodeRequest request = WholeRequest(bytes);
    int refused = 0;
    for (int i = 0; i < 24; ++i) {
      std::string damaged = i % 2 == 0 ? bytes.substr(0, bytes.size() * i / 24) : bytes;
      for (size_t at = 12 + i; i % 2 == 1 && at < damaged.size(); at += damaged.size() / 5 + 1)
        damaged[at] ^= 1 << i % 8;
      const auto decoded = DecodeHere(damaged, request);
      if (decoded.ok()) continue;
      ++refused;
      EXPECT_THAT(decoded.status(), StatusIs(absl::StatusCode::kInvalidArgument, testing::Not(testing::IsEmpty())));
    }
    EXPECT_GT(refused, 0);
  }
}

TEST(Decoder, AnImageCutOffIsNeverTakenForWhole) {
  for (const char* name : {"camera.png", "photo.jpg", "photo.webp", "lossless.webp"}) {
    const std::string bytes = ReadFile(DataPath(name));
    const DecodeRequest request = WholeRequest(bytes);
    for (const size_t size : {bytes.size() / 4, bytes.size() / 2, bytes.size() * 3 / 4}) {
      EXPECT_THAT(DecodeHere(bytes.substr(0, size), request), StatusIs(absl::StatusCode::kInvalidArgument))
          << name << " " << size;
    }
  }
}

TEST(Decoder, AFileOfOneKindIsNotTriedAsAnother) {
  const std::string movie = ReadFile(DataPath("clip.mp4"));
  for (const MediaKind kind : {MediaKind::kPng, MediaKind::kJpeg, MediaKind::kWebp, MediaKind::kWebm}) {
    const DecodeRequest request{.kind = kind};
    Decoded out;
    EXPECT_THAT(Decode(FileOf(movie), request, SinkOf(out)), StatusIs(absl::StatusCode::kInvalidArgument));
  }
  KINORA_ASSERT_OK_AND_ASSIGN(const Decoded silent, DecodeHere(movie, {.sound = 1, .most_seconds = 1}));
  EXPECT_EQ(silent.info.channels, 0);
}

TEST(Decoder, AFileThatCannotBeReadIsTheMachinesFault) {
  for (const char* name : {"camera.png", "clip.mp4", "sound.flac"}) {
    const std::string bytes = ReadFile(DataPath(name));
    MediaFile file = FileOf(bytes);
    file.read = [whole = file.read](int64_t offset, uint8_t* to, int64_t size) {
      return offset > 100 ? -1 : whole(offset, to, std::min<int64_t>(size, 100));
    };
    DecodeRequest request{.kind = *MediaKindOf(MediaTypeOf(bytes)), .most_pictures = 1, .most_seconds = 1};
    request.sound = request.kind == MediaKind::kFlac ? 1 : 0;
    Decoded out;
    EXPECT_THAT(Decode(file, request, SinkOf(out)), StatusIs(absl::StatusCode::kUnavailable)) << name;
  }
}

std::vector<std::string>* refused_codecs = nullptr;
void KeepRefusals(void*, int, const char* format, va_list values) {
  char line[256];
  vsnprintf(line, sizeof(line), format, values);
  if (std::string(line).find("whitelist") != std::string::npos) refused_codecs->push_back(line);
}

TEST(Decoder, NoCodecButThoseThatAreTakenIsOpenedNotEvenToLookAtAFile) {
  std::string movie = ReadFile(DataPath("clip.mp4"));
  const size_t name = movie.find("avc1", movie.find("stsd"));
  ASSERT_NE(name, std::string::npos);
  movie.replace(name, 4, "cvid");
  std::vector<std::string> refused;
  refused_codecs = &refused;
  av_log_set_callback(&KeepRefusals);
  const absl::Status status = DecodeHere(movie, {.most_pictures = 1}).status();
  av_log_set_callback(&av_log_default_callback);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("its codec is cinepak")));
  EXPECT_THAT(refused, testing::Contains(HasSubstr("cinepak")));
}

}  // namespace
}  // namespace kinora
