#include "server/decode/decode_protocol.h"

#include <gmock/gmock.h>

#include <cstring>
#include <limits>

#include "tests/server/decode/decode_fixture.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;

const DecodeRequest kPicture{.kind = MediaKind::kMp4, .most_pictures = 2};
const DecodeRequest kSound{.kind = MediaKind::kWav, .sound = 1, .most_seconds = 1};

template <typename T>
std::string Bytes(const T& value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}
std::string Message(ReplyKind kind, const std::string& payload) {
  return Bytes(ReplyHeader{.kind = kind, .bytes = static_cast<uint32_t>(payload.size())}) + payload;
}
const std::string kBegin = Message(ReplyKind::kSandboxed, "");
std::string Info(MediaInfo info = {.width = 4, .height = 4, .channels = 2, .samples_per_second = 100}) {
  return Message(ReplyKind::kInfo, Bytes(info));
}
std::string Floats(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}
std::string OnePicture(char x = 'x') { return Message(ReplyKind::kPicture, std::string(48, x)); }  // matching Info

absl::StatusOr<Decoded> Take(const DecodeRequest& request, const std::string& answer, size_t piece = 3) {
  Decoded out;
  ReplyReader reader(request, SinkOf(out));
  for (size_t at = 0; at < answer.size(); at += piece) {
    const absl::Status status = reader.Take(std::string_view(answer).substr(at, piece));
    if (!status.ok()) return status;
  }
  if (!reader.done()) return absl::OutOfRangeError("not done");
  return out;
}

TEST(DecodeProtocol, AWholeAnswerComesInPiecesOfAnySize) {
  const std::string answer = kBegin + Info() + OnePicture() + OnePicture('y') + Message(ReplyKind::kEnd, "");
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{100'000}}) {
    KINORA_ASSERT_OK_AND_ASSIGN(const Decoded out, Take(kPicture, answer, piece));
    EXPECT_THAT(out.pictures, ElementsAre(std::vector<uint8_t>(48, 'x'), std::vector<uint8_t>(48, 'y')));
  }
  KINORA_ASSERT_OK_AND_ASSIGN(const Decoded sound,
                              Take(kSound, kBegin + Info() + Message(ReplyKind::kSamples, Floats({1, -1, 0, 0.25f})) +
                                               Message(ReplyKind::kEnd, "")));
  EXPECT_THAT(sound.samples, ElementsAre(1, -1, 0, 0.25f));
}

TEST(DecodeProtocol, SamplesThatAreNoNumbersOrTooLargeBecomeOnesThatAModelTakes) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  KINORA_ASSERT_OK_AND_ASSIGN(
      const Decoded out,
      Take(kSound, kBegin + Info() + Message(ReplyKind::kSamples, Floats({std::nanf(""), kInfinity, -kInfinity, 2})) +
                       Message(ReplyKind::kEnd, "")));
  EXPECT_THAT(out.samples, ElementsAre(-1, 1, -1, 1));
}

TEST(DecodeProtocol, TheDecodersErrorIsShownWithoutWhatATerminalWouldObey) {
  EXPECT_THAT(Take(kPicture, kBegin + Message(ReplyKind::kError, "bad \x1b[2J\nfile")),
              StatusIs(StatusCode::kInvalidArgument, "bad ?[2J?file"));
}

TEST(DecodeProtocol, AFaultOfTheMachineIsNotTheFiles) {
  for (const std::string& begin : {std::string(), kBegin}) {
    EXPECT_THAT(Take(kPicture, begin + Message(ReplyKind::kFault, "no seccomp")),
                StatusIs(StatusCode::kUnavailable, "kinora-decode: no seccomp"));
  }
}

TEST(DecodeProtocol, PicturesAreAsLargeAsTheirDescriptionSays) {
  const auto picture = [](size_t bytes) { return Message(ReplyKind::kPicture, std::string(bytes, 'x')); };
  for (const std::string& answer : {Info() + picture(47), Info() + picture(49), Info({.width = 8193, .height = 8192}),
                                    Info({.width = 0x7fffffff, .height = 0x7fffffff})}) {
    EXPECT_THAT(Take(kPicture, kBegin + answer),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("unexpected message")));
  }
}

TEST(DecodeProtocol, OnlyAClipMayHaveNoSound) {
  DecodeRequest request = kSound;
  EXPECT_THAT(Take(request, kBegin + Info(MediaInfo{})), StatusIs(StatusCode::kInvalidArgument));
  request.kind = MediaKind::kMp4;
  KINORA_ASSERT_OK_AND_ASSIGN(const Decoded out,
                              Take(request, kBegin + Info(MediaInfo{}) + Message(ReplyKind::kEnd, "")));
  EXPECT_EQ(out.info.channels, 0);
  EXPECT_THAT(Take(request, kBegin + Info(MediaInfo{}) + Message(ReplyKind::kSamples, "12345678")),
              StatusIs(StatusCode::kInvalidArgument));
}

TEST(DecodeProtocol, WhatWasNotAskedForIsRefusedAtItsHeader) {
  const auto header = [](ReplyKind kind, uint32_t bytes) { return Bytes(ReplyHeader{.kind = kind, .bytes = bytes}); };
  const std::string samples = Message(ReplyKind::kSamples, std::string(8 * 102, '\0'));
  for (const auto& [request, answer] : std::vector<std::pair<DecodeRequest, std::string>>{
           {kPicture, header(static_cast<ReplyKind>(0), 0)},
           {kPicture, header(static_cast<ReplyKind>(99), 0)},
           {kPicture, header(ReplyKind::kError, kMostErrorBytes + 1)},
           {kPicture, header(ReplyKind::kInfo, 4)},
           {kPicture, Info() + Info()},
           {kPicture, Info({.width = -1, .height = 4})},
           {kPicture, Info({.width = 4, .height = 4, .frames_per_second = std::nan("")})},
           {kPicture, OnePicture()},
           {kPicture, Info() + header(ReplyKind::kPicture, 0xffffffff)},
           {kPicture, Info() + header(ReplyKind::kPicture, 11)},
           {kPicture, Info() + OnePicture() + OnePicture() + OnePicture()},
           {kPicture, Info() + header(ReplyKind::kSamples, 8)},
           {kPicture, Info() + Message(ReplyKind::kEnd, "")},
           {kPicture, Info() + OnePicture() + Message(ReplyKind::kEnd, "") + "x"},
           {kSound, Info({.channels = 0, .samples_per_second = 100})},
           {kSound, Info({.channels = 2, .samples_per_second = 1 << 30})},
           {kSound, Info() + OnePicture()},
           {kSound, Info() + header(ReplyKind::kSamples, 7)},
           {kSound, Info() + header(ReplyKind::kSamples, 0)},
           {kSound, Info() + samples}}) {
    EXPECT_THAT(Take(request, kBegin + answer),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("unexpected message")));
  }
  EXPECT_THAT(Take(kPicture, Info()), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(Take(kPicture, kBegin + kBegin), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(Take(kPicture, kBegin + Info() + OnePicture()), StatusIs(StatusCode::kOutOfRange));  // ends too early
}

TEST(DecodeProtocol, RequestsAreChecked) {
  EXPECT_THAT(CheckDecodeRequest(kPicture), IsOk());
  EXPECT_THAT(CheckDecodeRequest(kSound), IsOk());
  const auto wrong = [](DecodeRequest request, auto change) {
    change(request);
    EXPECT_THAT(CheckDecodeRequest(request), StatusIs(StatusCode::kInvalidArgument));
  };
  wrong(kPicture, [](DecodeRequest& r) { r.crf = 52; });
  wrong(kPicture, [](DecodeRequest& r) { r.most_pictures = 0; });
  wrong(kPicture, [](DecodeRequest& r) { r.kind = MediaKind::kFlac; });
  wrong(kPicture, [](DecodeRequest& r) { r.kind = static_cast<MediaKind>(0); });
  wrong(kSound, [](DecodeRequest& r) { r.kind = MediaKind::kPng; });
  wrong(kSound, [](DecodeRequest& r) { r.most_seconds = -1; });
  wrong(kSound, [](DecodeRequest& r) { r.most_seconds = std::nan(""); });
  wrong(kSound, [](DecodeRequest& r) { r.sound = 2; });
}

}  // namespace
}  // namespace kinora
