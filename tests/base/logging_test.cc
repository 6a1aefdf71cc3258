#include "engine/base/logging.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace kinora {
namespace {

const LogOptions kText, kJson{.format = LogFormat::kJson};

TEST(Logging, ANumberIsANumberInJson) {
  EXPECT_EQ(FormatLogLine(kJson, Severity::kInfo, "run_ended",
                          {{"job", "17"}, {"attempt", 2}, {"seconds", 0.5}, {"port", uint16_t{8470}}}),
            R"("level":"info","event":"run_ended","job":"17","attempt":2,"seconds":0.5,"port":8470)");
  EXPECT_EQ(FormatLogLine(kText, Severity::kInfo, "run_ended", {{"job", "17"}, {"attempt", 2}}),
            "level=info event=run_ended job=17 attempt=2");
}

// jq, JavaScript and most other readers parse numbers as doubles.
TEST(Logging, AnIntegerThatADoubleWouldRoundStaysAString) {
  constexpr int64_t kExact = int64_t{1} << 53;
  const auto line = [](const LogValue& value) { return FormatLogLine(kJson, Severity::kInfo, "x", {{"n", value}}); };
  EXPECT_EQ(line(kExact), R"("level":"info","event":"x","n":9007199254740992)");
  EXPECT_EQ(line(-kExact), R"("level":"info","event":"x","n":-9007199254740992)");
  EXPECT_EQ(line(kExact + 1), R"("level":"info","event":"x","n":"9007199254740993")");
  EXPECT_EQ(line(-kExact - 1), R"("level":"info","event":"x","n":"-9007199254740993")");
  EXPECT_EQ(line(std::numeric_limits<uint64_t>::max()), R"("level":"info","event":"x","n":"18446744073709551615")");
  EXPECT_EQ(line(std::nan("")), R"("level":"info","event":"x","n":"nan")");
  EXPECT_EQ(line(HUGE_VAL), R"("level":"info","event":"x","n":"inf")");
}

TEST(Logging, EveryRecordSaysWhichProcessSpeaks) {
  const std::vector<LogField> worker = {{"process", "worker"}, {"group", "0"}, {"rank", 1}};
  EXPECT_EQ(FormatLogLine({.process = worker}, Severity::kInfo, "run_started", {{"job", "a"}}),
            "level=info process=worker group=0 rank=1 event=run_started job=a");
  EXPECT_EQ(FormatLogLine({.format = LogFormat::kJson, .process = worker}, Severity::kInfo, "run_started", {}),
            R"("level":"info","process":"worker","group":"0","rank":1,"event":"run_started")");
}

TEST(Logging, WhatWouldEndALineOrActOnATerminalIsEscaped) {
  const std::string said = "a\nb\rc\x1b[31m\x7f\xff\"\\é";
  EXPECT_EQ(FormatLogLine(kJson, Severity::kWarning, "grpc", {{"says", said}}),
            R"("level":"warning","event":"grpc","says":"a\nb\u000dc\u001b[31m\u007f?\"\\é")");
  EXPECT_EQ(FormatLogLine(kText, Severity::kWarning, "grpc", {{"says", "\x1b[2J"}}),
            R"(level=warning event=grpc says="\u001b[2J")");
  EXPECT_EQ(FormatLogLine(kText, Severity::kWarning, "grpc",
                          {{"says",
                            "\xc2\x9b"
                            "2J"},
                           {"to", "a\xff"}}),
            R"(level=warning event=grpc says="\u009b2J" to="a?")");
  EXPECT_EQ(FormatLogLine(kJson, Severity::kWarning, "grpc", {{"says", "\xc2\x80\xc2\x9f\xc2\xa0"}}),
            "\"level\":\"warning\",\"event\":\"grpc\",\"says\":\"\\u0080\\u009f\xc2\xa0\"");
}

TEST(Logging, AStringIsCutAt200BytesAndASentenceAt2000) {
  const auto value = [](std::string_view key, const std::string& text) {
    const std::string line = FormatLogLine(kText, Severity::kWarning, "x", {{key, text}});
    return line.substr(line.find('=', line.find(key)) + 1);
  };
  const std::string g(200, 'g');
  EXPECT_EQ(value("group", g), g);
  EXPECT_EQ(value("group", std::string(3 << 20, 'g')), absl::StrCat("\"", g, "…(+3145528 bytes)\""));
  EXPECT_EQ(value("why", std::string(2001, 'w')), absl::StrCat("\"", std::string(2000, 'w'), "…(+1 bytes)\""));
  // Truncates between two characters if the text is valid UTF-8.
  const std::string shorter(199, 'g');
  EXPECT_EQ(value("group", absl::StrCat(shorter, "é!")), absl::StrCat("\"", shorter, "…(+3 bytes)\""));
  EXPECT_EQ(value("group", std::string(300, '\x80')), absl::StrCat("\"", std::string(200, '?'), "…(+100 bytes)\""));
}

}  // namespace
}  // namespace kinora
