// kinora-decode as its parent process uses it: the program, its sandbox, and malicious files.
#include "server/decode/decoder_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "engine/base/file_descriptor.h"
#include "server/decode/sandbox.h"
#include "tests/server/decode/decode_fixture.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

absl::StatusOr<Decoded> DecodeThere(const std::string& bytes, DecodeRequest request,
                                    const std::string& binary = KINORA_DECODE_BINARY,
                                    absl::Duration timeout = absl::Seconds(60)) {
  const TemporaryDirectory directory;
  WriteFile(directory.File("input"), bytes);
  const FileDescriptor file(open(directory.File("input").c_str(), O_RDONLY | O_CLOEXEC));
  if (const auto kind = MediaKindOf(MediaTypeOf(bytes)); kind.ok()) request.kind = *kind;
  Decoded out;
  const absl::Status status =
      DecodeInput({.binary = binary, .timeout = timeout}, "0123", file.get(), request, SinkOf(out));
  if (!status.ok()) return status;
  return out;
}

void ExpectRefused(const absl::StatusOr<Decoded>& decoded) {
  EXPECT_THAT(decoded,
              StatusIs(StatusCode::kInvalidArgument, AllOf(StartsWith("input 0123: "), Not(HasSubstr("wanted")))));
}

TEST(DecoderProcess, GivesWhatTheDecoderGives) {
  for (const char* name : {"camera.png", "palette.png", "photo_progressive.jpg", "photo_profile.jpg", "photo.webp",
                           "clip.mp4", "clip.webm", "sound.wav", "sound.flac", "sound.mp3", "sound.aac", "sound.m4a"}) {
    SCOPED_TRACE(name);
    const std::string bytes = ReadFile(DataPath(name));
    const DecodeRequest request = WholeRequest(bytes);
    KINORA_ASSERT_OK_AND_ASSIGN(const Decoded here, DecodeHere(bytes, request));
    KINORA_ASSERT_OK_AND_ASSIGN(const Decoded there, DecodeThere(bytes, request));
    EXPECT_EQ(there.info.width, here.info.width);
    EXPECT_EQ(there.info.samples_per_second, here.info.samples_per_second);
    EXPECT_EQ(there.pictures, here.pictures);
    EXPECT_EQ(there.samples, here.samples);
  }
}

TEST(DecoderProcess, TheH264PassRunsInTheSandbox) {
  const std::string bytes = ReadFile(DataPath("camera.png"));
  const DecodeRequest request{.crf = 33};
  KINORA_ASSERT_OK_AND_ASSIGN(const Decoded here, DecodeHere(bytes, request));
  KINORA_ASSERT_OK_AND_ASSIGN(const Decoded there, DecodeThere(bytes, request));
  EXPECT_EQ(there.pictures, here.pictures);
}

TEST(DecoderProcess, CutOffFilesOfEveryTypeAreRefusedOrDecodedAsFarAsTheyGo) {
  for (const char* name : {"camera.png", "photo.jpg", "photo.webp", "clip.mp4", "clip.webm", "sound.wav", "sound.flac",
                           "sound.mp3", "sound.aac", "sound.m4a"}) {
    SCOPED_TRACE(name);
    const std::string bytes = ReadFile(DataPath(name));
    const DecodeRequest request = WholeRequest(bytes);
    for (const size_t size : {size_t{64}, bytes.size() / 3, bytes.size() - 7}) {
      const auto decoded = DecodeThere(bytes.substr(0, size), request);
      if (!decoded.ok()) ExpectRefused(decoded);
    }
    ExpectRefused(DecodeThere(bytes.substr(0, 16), request));
  }
}

std::string BigEndian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

// Returns camera.png with other sizes in its header and a correct checksum.
std::string PngOfSides(uint32_t width, uint32_t height) {
  std::string bytes = ReadFile(DataPath("camera.png"));
  bytes.replace(16, 8, BigEndian(width) + BigEndian(height));
  uint32_t sum = ~0u;
  for (const char c : bytes.substr(12, 17)) {
    sum ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (0xedb88320u & (0u - (sum & 1)));
  }
  return bytes.replace(29, 4, BigEndian(~sum));
}

TEST(DecoderProcess, ImagesLargerThanTheirBytesCostNothing) {
  rusage before{}, after{};
  getrusage(RUSAGE_CHILDREN, &before);
  for (const auto& [width, height] : {std::pair<uint32_t, uint32_t>{100'000, 100'000},
                                      {100'000, 1000},
                                      {8193, 8192},
                                      {0x7fffffff, 0x7fffffff},
                                      {0, 5}}) {
    ExpectRefused(DecodeThere(PngOfSides(width, height), {}));
  }
  std::string jpeg = ReadFile(DataPath("photo.jpg"));
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\xff\xff\xff\xff");
  ExpectRefused(DecodeThere(jpeg, {}));
  getrusage(RUSAGE_CHILDREN, &after);
  EXPECT_LT(after.ru_utime.tv_sec - before.ru_utime.tv_sec, 20);
}

TEST(DecoderProcess, AFileThatIsNotWhatItBeginsLikeIsRefused) {
  std::string garbage;
  for (uint32_t i = 0, x = 9; i < 60'000; ++i, x = x * 1664525 + 1013904223) garbage += static_cast<char>(x >> 24);
  for (const char* name :
       {"camera.png", "photo.jpg", "photo.webp", "clip.mp4", "clip.webm", "sound.flac", "sound.m4a"}) {
    SCOPED_TRACE(name);
    const std::string bytes = ReadFile(DataPath(name));
    ExpectRefused(DecodeThere(bytes.substr(0, 24) + garbage, WholeRequest(bytes)));
  }
}

const char* const kForbidden[] = {"open",        "create", "socket", "unix socket", "fork",     "exec",
                                  "kill parent", "ptrace", "unlink", "code",        "duplicate"};

TEST(DecoderProcess, ADecoderThatWasTakenOverCanDoNothing) {
  if (!kSandboxFilters) GTEST_SKIP() << "no filter beside a sanitizer";
  for (const char* what : kForbidden) {
    EXPECT_THAT(DecodeThere(what, {}, KINORA_SANDBOX_PROBE),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("that decoders may not perform")))
        << what;
  }
  EXPECT_THAT(DecodeThere("nothing", {}, KINORA_SANDBOX_PROBE),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("status 42")));  // or the others prove nothing
}

TEST(DecoderProcess, MemoryIsBounded) {
  if (!kSandboxFilters) GTEST_SKIP() << "a sanitizer maps terabytes";
  EXPECT_THAT(DecodeThere("memory", {}, KINORA_SANDBOX_PROBE),
              StatusIs(StatusCode::kInvalidArgument, AnyOf(HasSubstr("signal 6"), HasSubstr("may not perform"))));
}

TEST(DecoderProcess, TimeIsBoundedByTheKernelAndByTheParent) {
  EXPECT_THAT(DecodeThere("time", {}, KINORA_SANDBOX_PROBE),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("too much time")));
  // tail waits for the end of its input, which its parent keeps open.
  EXPECT_THAT(DecodeThere("x", {}, "/usr/bin/tail", absl::Milliseconds(300)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("input 0123: not decoded within 300ms")));
}

TEST(DecoderProcess, ADecoderThatSleepsIsEndedByTheKernel) {
  EXPECT_THAT(DecodeThere("sleep", {}, KINORA_SANDBOX_PROBE),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("too much time")));
}

// The child starts a decoder and is killed while it runs; this process then inherits the decoder.
TEST(DecoderProcess, ADecoderEndsWithTheProcessThatStartedIt) {
  const TemporaryDirectory directory;
  WriteFile(directory.File("input"), "sleep long");
  int started[2];
  ASSERT_EQ(pipe2(started, O_CLOEXEC), 0);
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    const FileDescriptor file(open(directory.File("input").c_str(), O_RDONLY | O_CLOEXEC));
    const auto tell = [&] { return write(started[1], "x", 1) == 1 ? absl::OkStatus() : absl::CancelledError(); };
    Decoded out;
    DecodeInput({.binary = KINORA_SANDBOX_PROBE, .go_on = tell}, "0123", file.get(), {}, SinkOf(out)).IgnoreError();
    _exit(0);
  }
  char byte;
  ASSERT_EQ(read(started[0], &byte, 1), 1);  // the decoder sleeps in its sandbox, or soon will
  kill(parent, SIGKILL);
  int status = 0;
  ASSERT_EQ(waitpid(parent, &status, 0), parent);
  const pid_t decoder = waitpid(-1, &status, 0);
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
  close(started[0]);
  close(started[1]);
  ASSERT_GT(decoder, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

// Decodes with `tail`, which answers nothing, and a clock that advances by `step` at each go_on call.
absl::Status DecodeWithSteps(absl::Duration timeout, absl::Duration step) {
  const TemporaryDirectory directory;
  WriteFile(directory.File("input"), "x");
  const FileDescriptor file(open(directory.File("input").c_str(), O_RDONLY | O_CLOEXEC));
  FakeClock clock;
  Decoded out;
  const auto go_on = [&] {
    clock.Advance(step);
    return absl::OkStatus();
  };
  return DecodeInput({.binary = "/usr/bin/tail", .timeout = timeout, .clock = clock, .go_on = go_on}, "0123",
                     file.get(), {}, SinkOf(out));
}

TEST(DecoderProcess, TimeGoesByTheClockThatItIsGiven) {
  EXPECT_THAT(DecodeWithSteps(absl::Seconds(12), absl::Seconds(4)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("not decoded within 12s")));
}

TEST(DecoderProcess, AProcessThatWasStoppedBlamesNoFile) {
  EXPECT_THAT(DecodeWithSteps(absl::Seconds(60), absl::Seconds(90)),
              StatusIs(StatusCode::kUnavailable, HasSubstr("this process was stopped for 1m30s of the 1m")));
}

TEST(DecoderProcess, AnswersThatWereNotAskedForAreRefused) {
  EXPECT_THAT(DecodeThere("x", {}, "/usr/bin/yes"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("unexpected message")));
  EXPECT_THAT(DecodeThere("x", {}, "/bin/true"),
              StatusIs(StatusCode::kUnavailable, HasSubstr("failed to start on this machine: status 0")));
  // In the sandbox, any exit is attributed to the file.
  EXPECT_THAT(DecodeThere("status 2", {}, KINORA_SANDBOX_PROBE),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("status 2")));
}

TEST(DecoderProcess, OneThatClosesItsAnswerAndGoesOnIsEndedInTime) {
  EXPECT_THAT(DecodeThere("close", {}, KINORA_SANDBOX_PROBE, absl::Milliseconds(300)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("not decoded within 300ms")));
}

TEST(DecoderProcess, WhoeverAsksMayHaveEnough) {
  const TemporaryDirectory directory;
  WriteFile(directory.File("input"), "x");
  const FileDescriptor file(open(directory.File("input").c_str(), O_RDONLY | O_CLOEXEC));
  const DecodeRequest request{};
  Decoded out;
  EXPECT_THAT(DecodeInput({.binary = "/usr/bin/tail", .go_on = [] { return absl::CancelledError("enough"); }}, "0123",
                          file.get(), request, SinkOf(out)),
              StatusIs(StatusCode::kCancelled, "enough"));
}

TEST(DecoderProcess, AProgramThatIsNotThereIsTheServersFault) {
  EXPECT_THAT(DecodeThere("x", {}, "/nowhere/kinora-decode"), StatusIs(StatusCode::kUnavailable));
}

}  // namespace
}  // namespace kinora
