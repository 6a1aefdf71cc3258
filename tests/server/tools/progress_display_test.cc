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

TEST(ProgressDisplay, RedrawsOneLineOnATerminalAndTakesItAway) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  ASSERT_EQ(grantpt(terminal), 0);
  ASSERT_EQ(unlockpt(terminal), 0);
  const int tty = open(ptsname(terminal), O_RDWR | O_NOCTTY);
  ASSERT_GE(tty, 0);
  {
    ProgressDisplay display(tty, /*quiet=*/false);
    display.Show({.stage = "stage1", .step = 1, .total_steps = 2, .fraction = 0.5});
  }
  const std::string shown = ReadAvailable(terminal);
  EXPECT_EQ(shown.find('\n'), std::string::npos) << shown;
  EXPECT_NE(shown.find("stage1 1/2"), std::string::npos) << shown;
  close(tty);
  close(terminal);
}

}  // namespace
}  // namespace kinora
