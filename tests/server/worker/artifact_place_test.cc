// The choice of where clips are written.
#include "server/worker/artifact_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/testing/full_disk.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ArtifactPlaceTest : public testing::Test {
 protected:
  ArtifactPlaceTest() {
    config_.set_frontend("frontend:8471");
    config_.set_group("far");
    config_.set_scratch_directory(directory_.path());
  }
  static std::string RootOf(ArtifactPlace& place) {
    return fs::path(*place.store().TemporaryPath("name")).parent_path().parent_path().string();
  }

  TemporaryDirectory directory_;
  v1::WorkerConfig config_;
  v1::Welcome welcome_;
};

TEST_F(ArtifactPlaceTest, ASharedOneIsTheFrontends) {
  welcome_.set_artifact_directory(directory_.File("artifacts"));
  {
    KINORA_ASSERT_OK_AND_ASSIGN(const auto place, ArtifactPlace::Open(config_, welcome_));
    EXPECT_TRUE(place->is_shared());
    EXPECT_EQ(RootOf(*place), directory_.File("artifacts"));
  }
  EXPECT_TRUE(fs::exists(directory_.File("artifacts")));
}

TEST_F(ArtifactPlaceTest, APrivateOneIsOfThisRankAndGoesWithIt) {
  std::string root, left;
  {
    KINORA_ASSERT_OK_AND_ASSIGN(const auto place, ArtifactPlace::Open(config_, welcome_));
    EXPECT_FALSE(place->is_shared());
    root = RootOf(*place);
    struct stat info;
    ASSERT_EQ(stat(root.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u);
    KINORA_ASSERT_OK_AND_ASSIGN(left, place->store().TemporaryPath("job/1/video.mp4"));
    WriteFile(left, "of a process that was killed");
    config_.set_rank(1);
    KINORA_ASSERT_OK_AND_ASSIGN(const auto other, ArtifactPlace::Open(config_, welcome_));
    EXPECT_NE(RootOf(*other), root);
    config_.set_rank(0);
    EXPECT_TRUE(fs::exists(left));
    KINORA_ASSERT_OK_AND_ASSIGN(const auto next, ArtifactPlace::Open(config_, welcome_));
    EXPECT_EQ(RootOf(*next), root);
    EXPECT_FALSE(fs::exists(left));
  }
  EXPECT_FALSE(fs::exists(root));
}

TEST_F(ArtifactPlaceTest, AScratchDirectoryThatHasGoneIsSaidAndTakenAgainOnceItIsBack) {
  const std::string scratch = directory_.File("scratch");
  config_.set_scratch_directory(scratch);
  KINORA_ASSERT_OK_AND_ASSIGN(const auto place, ArtifactPlace::Open(config_, welcome_));
  const auto gone = StatusIs(absl::StatusCode::kNotFound, HasSubstr("scratch_directory: " + scratch));
  EXPECT_THAT(place->Check(), gone);
  ASSERT_EQ(mkdir(scratch.c_str(), 0700), 0);
  EXPECT_THAT(place->Check(), IsOk());
  KINORA_ASSERT_OK_AND_ASSIGN(const std::string file, place->store().TemporaryPath("job/1/video.mp4"));
  WriteFile(file, "a clip");
  EXPECT_THAT(place->store().Put("job/1/video.mp4", file), IsOk());
  EXPECT_EQ(fs::directory_iterator(RootOf(*place) + "/.tmp"), fs::directory_iterator()) << "a probe is left";
  fs::remove_all(scratch);
  EXPECT_THAT(place->Check(), gone);
}

TEST_F(ArtifactPlaceTest, ADiskWithoutRoomForAClipIsSaid) {
  const auto result = OnSmallDisk(directory_.path(), 1 << 20, [&]() -> std::string {
    const auto place = ArtifactPlace::Open(config_, welcome_);
    if (!place.ok()) return place.status().ToString();
    const absl::Status status = (*place)->Check();
    const bool said = absl::IsResourceExhausted(status) &&
                      status.message().find("bytes are free, but 67108864 are required") != std::string::npos;
    return said ? "" : status.ToString();
  });
  if (result == SmallDiskResult::kNotPermitted) GTEST_SKIP() << "no mount namespaces here";
  EXPECT_EQ(result, SmallDiskResult::kPassed);
}

TEST_F(ArtifactPlaceTest, AFolderThatOthersMayEnterIsRefused) {
  std::string root;
  {
    KINORA_ASSERT_OK_AND_ASSIGN(const auto place, ArtifactPlace::Open(config_, welcome_));
    root = RootOf(*place);
  }
  ASSERT_EQ(mkdir(root.c_str(), 0755), 0);
  EXPECT_THAT(ArtifactPlace::Open(config_, welcome_),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("scratch_directory: ")));
}

}  // namespace
}  // namespace kinora
