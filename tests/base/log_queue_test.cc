// Logs with a slow or missing reader, and log output at process exit.
#include "engine/base/log_queue.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/check.h"
#include "engine/base/file_descriptor.h"
#include "engine/base/logging.h"

namespace kinora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Pipe {
  Pipe() {
    int ends[2];
    KINORA_CHECK(pipe2(ends, O_CLOEXEC) == 0);
    read_end = FileDescriptor(ends[0]);
    write_end = FileDescriptor(ends[1]);
  }
  int64_t Fill() const {  // returns the number of bytes written
    int64_t bytes = 0;
    fcntl(write_end.get(), F_SETFL, O_NONBLOCK);
    while (write(write_end.get(), "x", 1) == 1) ++bytes;
    fcntl(write_end.get(), F_SETFL, 0);
    return bytes;
  }
  void Skip(int64_t bytes) const {
    char byte;
    for (; bytes > 0; --bytes) KINORA_CHECK(read(read_end.get(), &byte, 1) == 1);
  }
  // Reads up to and including the first line that contains `last`.
  std::vector<std::string> ReadLines(const std::string& last) const {
    std::string text;
    while (text.find(last) == std::string::npos || !text.ends_with('\n')) {
      char piece[512];
      const ssize_t n = read(read_end.get(), piece, sizeof(piece));
      KINORA_CHECK(n > 0);
      text.append(piece, n);
    }
    return absl::StrSplit(text, '\n', absl::SkipEmpty());
  }
  FileDescriptor read_end, write_end;
};

std::string SayDropped(int64_t lines) { return absl::StrCat("dropped ", lines, "\n"); }

// Returns a queue that is never destroyed but stays reachable, so that it does not count as a leak.
LogQueue& QueueOf(const Pipe& pipe, int64_t most_bytes) {
  static auto* const queues = new std::vector<LogQueue*>;
  return *queues->emplace_back(new LogQueue(dup(pipe.write_end.get()), most_bytes, &SayDropped));
}

TEST(LogQueue, LinesComeInTheirOrder) {
  const Pipe pipe;
  LogQueue& queue = QueueOf(pipe, 1 << 20);
  for (const char* line : {"one\n", "two\n", "three\n"}) queue.Add(line);
  EXPECT_THAT(pipe.ReadLines("three"), ElementsAre("one", "two", "three"));
  EXPECT_TRUE(queue.Flush(absl::Minutes(10)));
  EXPECT_EQ(queue.dropped(), 0);
}

TEST(LogQueue, WhatNobodyReadsIsDroppedAndCountedWhereItIsMissing) {
  const Pipe pipe;
  const int64_t filling = pipe.Fill();  // the queue's thread cannot make room between two lines
  constexpr int kLines = 2000, kLineBytes = 11, kKept = 300;
  LogQueue& queue = QueueOf(pipe, kKept * kLineBytes);
  for (int i = 0; i < kLines; ++i) queue.Add(absl::StrCat("line ", 10'000 + i, "\n"));
  EXPECT_FALSE(queue.Flush(absl::ZeroDuration()));
  const int64_t dropped = queue.dropped();
  EXPECT_EQ(dropped, kLines - kKept);
  pipe.Skip(filling);
  std::vector<std::string> lines = pipe.ReadLines("dropped");
  EXPECT_EQ(lines.back(), absl::StrCat("dropped ", dropped));
  EXPECT_EQ(std::ssize(lines) - 1, kLines - dropped);
  for (size_t i = 0; i + 1 < lines.size(); ++i) EXPECT_EQ(lines[i], absl::StrCat("line ", 10'000 + i));
  queue.Add("again\n");
  EXPECT_THAT(pipe.ReadLines("again"), ElementsAre("again"));
  EXPECT_EQ(queue.dropped(), dropped);
}

// Call it in a child process. Redirects its standard error to the pipe.
void LogInto(const Pipe& pipe) {
  dup2(pipe.write_end.get(), STDERR_FILENO);
  StartLogThread();
}

TEST(LogThreadDeathTest, AProcessGoesOnWhoseLogIsNotRead) {
  const Pipe pipe;
  EXPECT_EXIT(
      {
        LogInto(pipe);
        while (DroppedLogLines() == 0) Log(Severity::kInfo, "again", {});
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
}

TEST(LogThreadDeathTest, WhatWasLoggedIsWrittenBeforeTheExit) {
  const Pipe pipe;
  EXPECT_EXIT(
      {
        LogInto(pipe);
        for (int i = 0; i < 10; ++i) Log(Severity::kInfo, "early", {{"i", i}});
        Log(Severity::kInfo, "last", {});
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EQ(pipe.ReadLines("event=last").size(), 11);
}

TEST(LogThreadDeathTest, AFailedCheckSpeaksAfterTheLog) {
  const Pipe pipe;
  EXPECT_EXIT(
      {
        LogInto(pipe);
        Log(Severity::kInfo, "before", {});
        KINORA_CHECK(1 + 1 == 3) << "sum";
      },
      testing::KilledBySignal(SIGABRT), "");
  EXPECT_THAT(pipe.ReadLines("sum"), ElementsAre(HasSubstr("event=before"), HasSubstr("check failed: 1 + 1 == 3 sum")));
}

TEST(LogThreadDeathTest, AFailedCheckThatNobodyReadsEndsTheProcessAllTheSame) {
  const Pipe pipe;
  pipe.Fill();
  EXPECT_EXIT(
      {
        LogInto(pipe);
        Log(Severity::kInfo, "before", {});
        KINORA_CHECK(1 + 1 == 3);
      },
      testing::KilledBySignal(SIGABRT), "");
}

}  // namespace
}  // namespace kinora
