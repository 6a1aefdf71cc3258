#include "server/terminal/progress_display.h"

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

TEST(ProgressDisplay, OfABatchNeverGoesBack) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  {
    ProgressDisplay display(fds[1], /*quiet=*/false);
    display.SetPart(0, 2);
    display.Show({.stage = "denoise", .step = 4, .total_steps = 4, .fraction = 0.8});
    display.Show({.stage = "decode", .fraction = 0.6});  // the estimated rest has grown
    display.SetPart(1, 2);
    display.Show({.stage = "denoise", .step = 2, .total_steps = 4, .fraction = 0.5});
    display.Show({.stage = "denoise", .step = 0, .total_steps = 4, .fraction = 0.1});  // a late stage mark
    display.Show({.stage = "encode", .fraction = 0});                                  // its group was lost
    display.Show({.stage = "denoise", .step = 1, .total_steps = 4, .fraction = 0.3});
  }
  const std::string shown = ReadAvailable(fds[0]);
  for (const char* line : {"clip 1/2, denoise 4/4, 40%", "clip 1/2, decode, 40%", "clip 2/2, denoise 2/4, 75%",
                           "clip 2/2, encode, 75%", "clip 2/2, denoise 1/4, 75%"}) {
    EXPECT_NE(shown.find(line), std::string::npos) << shown;
  }
  EXPECT_EQ(shown.find("denoise 0/4"), std::string::npos) << shown;
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
    display.Show({.stage = "encode", .fraction = 0});
    display.Show({.stage = "denoise", .step = 2, .total_steps = 4, .fraction = 0.5, .remaining_seconds = 10});
    display.Show({.stage = "finalize", .fraction = 1, .remaining_seconds = 0});
  }
  // The two remaining clips each take twice as long as half of this one.
  EXPECT_EQ(ReadAvailable(fds[0]),
            "clip 2/4, encode, 25%\n"
            "clip 2/4, denoise 2/4, 37%, 0:50 left\n"
            "clip 2/4, finalize, 50%, 0:40 left\n");
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
  // A terminal may deliver the output in several parts.
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
  ExpectShown("\r\n\r\n\r\n\033[3A\0337ONE\0338\033[3B\r");  // \r from the line discipline
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
