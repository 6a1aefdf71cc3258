// `kinora upload` and the files of `generate` and `create`, against a real frontend.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/e2e/scripted_server.h"

namespace kinora {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

class Uploads : public ScriptedServer {
 protected:
  Uploads() {
    server_.Start();
    WriteFile(picture_, "\x89PNG\r\n\x1a\n" + std::string(3'000'000, 'p'));
    WriteFile(clip_, std::string("\0\0\0\x20", 4) + "ftypisom" + std::string(1000, 'c'));
    WriteFile(sound_, "fLaC" + std::string(1000, 's'));
  }
  int Stored() const {
    const fs::path folder = directory_.File("state/artifacts/inputs");
    return fs::exists(folder) ? static_cast<int>(std::distance(fs::directory_iterator(folder), {})) : 0;
  }

  const std::string picture_ = directory_.File("me@home.png"), clip_ = directory_.File("a:b.mp4"),
                    sound_ = directory_.File("sound.flac");
};

TEST_F(Uploads, AFileIsSentOnceWithABarAndItsIdPrinted) {
  const Result first = server_.Run({"upload", picture_});
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_THAT(first.out, MatchesRegex("[0-9a-f]{64}\n"));
  EXPECT_THAT(first.err, HasSubstr("upload me@home.png 0/3, 0%"));
  const Result again = server_.Run({"upload", picture_});
  EXPECT_EQ(again.out, first.out);
  EXPECT_THAT(again.err, Not(HasSubstr("upload me@home.png")));  // nothing was sent
  const auto input = server_.Json({"upload", picture_});
  EXPECT_EQ(input["media_type"], "image/png");
  EXPECT_EQ(Stored(), 1);
}

TEST_F(Uploads, WhatIsWrongWithAFileIsSaidByItsName) {
  WriteFile(directory_.File("empty.png"), "");
  WriteFile(directory_.File("notes.png"), "not a picture");
  const auto told = [&](const std::vector<std::string>& arguments) {
    const Result result = server_.Run(arguments);
    EXPECT_NE(result.status, 0);
    return result.err;
  };
  EXPECT_THAT(told({"upload", directory_.File("nothing.png")}), HasSubstr("nothing.png: cannot be read"));
  EXPECT_THAT(told({"upload", directory_.File("empty.png")}), HasSubstr("empty.png: is empty"));
  EXPECT_THAT(told({"upload", directory_.File("notes.png")}), HasSubstr("data: is of no type that is taken"));
  EXPECT_THAT(told({"create", "x", "--image", directory_.File("notes.png")}),
              AllOf(HasSubstr("--image"), HasSubstr("is of no type that is taken")));
  EXPECT_THAT(told({"create", "x", "--retake", clip_}), HasSubstr("--retake"));
  EXPECT_THAT(told({"create", "x", "--audio", picture_}), HasSubstr("--image takes it"));
  EXPECT_EQ(Stored(), 0);
}

// The server refuses what no recipe takes yet, by its field, once the files are there.
TEST_F(Uploads, GenerateAndCreateUploadTheirFilesAndTheServerSaysWhatItCannotDoYet) {
  for (const char* command : {"generate", "create"}) {
    std::vector<std::string> arguments = {command, "x", "--image", picture_, "--image", picture_ + "@8:0.5"};
    if (std::string(command) == "generate") arguments.insert(arguments.end(), {"-o", directory_.File("out.mp4")});
    const Result images = server_.Run(arguments);
    EXPECT_EQ(images.status, kRefused) << images.err;
    EXPECT_THAT(images.err, HasSubstr("conditions"));
    EXPECT_EQ(Stored(), 1);
  }
  EXPECT_THAT(server_.Run({"create", "x", "--audio", sound_}).err, HasSubstr("audio"));
  EXPECT_THAT(server_.Run({"create", "x", "--retake", clip_ + ":0-0.2"}).err, HasSubstr("retake"));
  EXPECT_EQ(Stored(), 3);
}

}  // namespace
}  // namespace kinora
