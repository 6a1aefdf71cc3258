#include "server/tools/progress_display.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

namespace kinora {
namespace {

std::string ReadAvailable(int fd) {
  char buffer[4096];
  const ssize_t n = read(fd, buffer, sizeof(buffer));
  return n > 0 ? std::string(buffer, n) : "";
}

TEST(ProgressBar, ShowsShareStageStepsAndTimeLeft) {
  EXPECT_EQ(FormatProgressBar(
                {.stage = "stage1", .step = 4, .total_steps = 8, .fraction = 0.5, .remaining_seconds = 71.6}, 100),
            "[###############---------------]  50%  stage1 4/8  1:12 left");
  EXPECT_EQ(
      FormatProgressLine({.stage = "decode", .step = 0, .total_steps = 0, .fraction = 1.5, .remaining_seconds = 3700}),
      "decode, 100%, 1:01:40 left");
}

TEST(ProgressBar, IsCutToTheTerminal) {
  EXPECT_EQ(FormatProgressBar({.stage = "stage1", .step = 0, .total_steps = 0, .fraction = 0}, 10), "[---------");
}

TEST(ProgressDisplay, IsPlainLinesOnAPipeEachOnce) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  {
    ProgressDisplay display(fds[1], /*quiet=*/false);
    for (int step : {1, 1, 2})
      display.Show({.stage = "stage1", .step = step, .total_steps = 2, .fraction = step / 2.0});
    display.Note("done");
  }
  EXPECT_EQ(ReadAvailable(fds[0]), "stage1 1/2, 50%\nstage1 2/2, 100%\ndone\n");
  close(fds[0]);
  close(fds[1]);
}

TEST(ProgressDisplay, IsOneBarForAllClipsOfABatch) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  {
    ProgressDisplay display(fds[1], /*quiet=*/false);
    display.SetPart(1, 4);
    display.State("job 1: RUNNING");
    display.Show({.stage = "denoise", .step = 2, .total_steps = 4, .fraction = 0.5});
  }
  const std::string shown = ReadAvailable(fds[0]);
  EXPECT_EQ(shown.find("clip 2/4, denoise 2/4, 37%, 0:00 left\n"), 0u) << shown;
  close(fds[0]);
  close(fds[1]);
}

class OnATerminal : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_GE(terminal_, 0);
    ASSERT_EQ(grantpt(terminal_), 0);
    ASSERT_EQ(unlockpt(terminal_), 0);
    tty_ = open(ptsname(terminal_), O_RDWR | O_NOCTTY);
    ASSERT_GE(tty_, 0);
  }
  ~OnATerminal() override {
    close(tty_);
    close(terminal_);
  }
  // A terminal hands on what was written bit by bit.
  void ExpectShown(const std::string& expected) const {
    std::string shown;
    while (shown.size() < expected.size()) {
      const std::string more = ReadAvailable(terminal_);
      ASSERT_FALSE(more.empty());
      shown += more;
    }
    EXPECT_EQ(shown, expected);
  }
  const int terminal_ = posix_openpt(O_RDWR | O_NOCTTY);
  int tty_ = -1;
};

TEST_F(OnATerminal, RedrawsOneLineAndTakesItAway) {
  {
    ProgressDisplay display(tty_, /*quiet=*/false);
    display.Show({.stage = "stage1", .step = 1, .total_steps = 2, .fraction = 0.5});
  }
  const std::string shown = ReadAvailable(terminal_);
  EXPECT_EQ(shown.find('\n'), std::string::npos) << shown;
  EXPECT_NE(shown.find("stage1 1/2"), std::string::npos) << shown;
}

TEST_F(OnATerminal, APictureStandsAboveTheBarUntilALineIsWritten) {
  ProgressDisplay display(tty_, /*quiet=*/false);
  display.Picture("ONE", 3);
  ExpectShown("\r\n\r\n\r\n\033[3A\0337ONE\0338\033[3B\r");  // the line discipline's \r
  display.Show({.stage = "stage1", .step = 1, .total_steps = 2, .fraction = 0.5});
  const std::string bar = ReadAvailable(terminal_);
  display.Picture("TWO", 3);
  ExpectShown("\r\033[K\033[3A\0337TWO\0338\033[3B\r" + bar);
  display.Note("a line");
  ExpectShown("\r\033[Ka line\r\n");
  display.Picture("THREE", 2);
  ExpectShown("\r\n\r\n\033[2A\0337THREE\0338\033[2B\r" + bar);
}

TEST_F(OnATerminal, WhereNoBarIsWantedNoPictureIs) {
  ProgressDisplay display(tty_, /*quiet=*/true);
  display.Picture("ONE", 3);
  display.Note("a line");
  ExpectShown("a line\r\n");
}

}  // namespace
}  // namespace kinora
