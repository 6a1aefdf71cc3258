#include "server/request/media_flags.h"

#include <gmock/gmock.h>

#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

class MediaFlagsTest : public testing::Test {
 protected:
  MediaFlagsTest() {
    WriteFile(picture_, "\x89PNG\r\n\x1a\n");
    WriteFile(clip_, std::string("\0\0\0\x20", 4) + "ftypmp42");
    WriteFile(sound_, "fLaC");
  }
  absl::StatusOr<std::vector<LocalMedia>> Add(const std::vector<std::string>& arguments) {
    const auto line = CommandLine::Parse(MediaFlags(), arguments);
    if (!line.ok()) return line.status();
    auto media = AddMedia(*line, generation_);
    if (media.ok()) {
      for (const LocalMedia& one : *media) one.ref(generation_)->set_input_id("id of " + one.path);
    }
    return media;
  }

  TemporaryDirectory directory_;
  const std::string picture_ = directory_.File("me@home.png"), clip_ = directory_.File("a:b.mp4"),
                    sound_ = directory_.File("s.flac");
  v1::Generation generation_;
};

TEST_F(MediaFlagsTest, NameEachFileAndWhereItsIdBelongs) {
  KINORA_ASSERT_OK_AND_ASSIGN(const auto media, Add({"--image", picture_, "--image", picture_ + "@16:0.25", "--image",
                                                     clip_ + "@8", "--audio", sound_, "--retake", clip_ + ":1.5-3"}));
  ASSERT_EQ(media.size(), 5u);
  ASSERT_EQ(generation_.conditions_size(), 3);
  EXPECT_EQ(generation_.conditions(0).image().input_id(), "id of " + picture_);
  EXPECT_FALSE(generation_.conditions(0).has_strength());
  EXPECT_EQ(generation_.conditions(1).image().input_id(), "id of " + picture_);
  EXPECT_EQ(generation_.conditions(1).frame(), 16);
  EXPECT_EQ(generation_.conditions(1).strength(), 0.25);
  EXPECT_EQ(generation_.conditions(2).clip().input_id(), "id of " + clip_);
  EXPECT_EQ(generation_.conditions(2).frame(), 8);
  EXPECT_EQ(generation_.audio().media().input_id(), "id of " + sound_);
  EXPECT_EQ(generation_.retake().clip().input_id(), "id of " + clip_);
  EXPECT_EQ(generation_.retake().start_seconds(), 1.5);
  EXPECT_EQ(generation_.retake().end_seconds(), 3);
}

TEST_F(MediaFlagsTest, ASoundIsHeardFromASecondOn) {
  const std::string at = directory_.File("me@1.5");  // part of the file name
  WriteFile(at, "fLaC");
  for (const auto& [flag, path, start] :
       {std::tuple(sound_ + "@2.25", sound_, 2.25), {sound_, sound_, 0.0}, {at + "@3", at, 3.0}}) {
    generation_.Clear();
    KINORA_ASSERT_OK_AND_ASSIGN(const auto media, Add({"--audio", flag}));
    EXPECT_EQ(generation_.audio().media().input_id(), "id of " + path);
    EXPECT_EQ(generation_.audio().start_seconds(), start);
  }
  EXPECT_THAT(Add({"--audio", sound_ + "@-1"}).status(), StatusIs(StatusCode::kNotFound, HasSubstr("s.flac@-1")));
}

TEST_F(MediaFlagsTest, AddToWhatTheRequestHasAlready) {
  generation_.add_conditions()->mutable_image()->set_input_id("known");
  KINORA_ASSERT_OK_AND_ASSIGN(const auto media, Add({"--image", picture_}));
  EXPECT_EQ(generation_.conditions(0).image().input_id(), "known");
  EXPECT_EQ(generation_.conditions(1).image().input_id(), "id of " + picture_);
}

TEST_F(MediaFlagsTest, WrongOnesAreNamed) {
  const auto wrong = [&](const std::string& flag, const std::string& value, const char* why) {
    EXPECT_THAT(Add({flag, value}),
                StatusIs(StatusCode::kInvalidArgument, testing::AllOf(HasSubstr(flag), HasSubstr(why))))
        << value;
  };
  wrong("--image", picture_ + "@0:2", "must be 0 to 1");
  wrong("--image", sound_, "use --audio");
  wrong("--image", directory_.path(), "is not a regular file");
  wrong("--audio", picture_, "use --image");
  wrong("--retake", picture_ + ":0-1", "not a clip");
  for (const char* ends : {"", ":", ":1", ":1-", ":2-1", ":1-1", ":-1-1", ":a-b"}) {
    wrong("--retake", clip_ + ends, "FILE:FROM-TO");
  }
  EXPECT_THAT(Add({"--image", directory_.File("nothing.png") + "@3"}),
              StatusIs(StatusCode::kNotFound, HasSubstr("nothing.png: cannot be read")));
}

}  // namespace
}  // namespace kinora
