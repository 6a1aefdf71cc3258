#include "engine/base/range_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace kinora {
namespace {

class Heard : public RangeSink {
 public:
  ~Heard() override { SetRangeSink(nullptr); }
  void Enter(const char* name, int64_t number) override { events.push_back(absl::StrCat(name, " ", number)); }
  void Leave() override { events.emplace_back("left"); }
  std::vector<std::string> events;
};

TEST(RangeSink, HearsOfRangesAsTheyBeginAndEnd) {
  Heard heard;
  SetRangeSink(&heard);
  {
    const HostRange outer(CurrentRangeSink(), "stage");
    const HostRange inner(CurrentRangeSink(), "step", 3);
  }
  EXPECT_THAT(heard.events, testing::ElementsAre("stage -1", "step 3", "left", "left"));
}

TEST(RangeSink, HearsOfTheEndOfARangeOnlyIfOfItsBeginning) {
  Heard heard;
  std::optional<HostRange> before(std::in_place, CurrentRangeSink(), "before");
  SetRangeSink(&heard);
  before.reset();
  std::optional<HostRange> within(std::in_place, CurrentRangeSink(), "within");
  SetRangeSink(nullptr);
  within.reset();
  const HostRange after(CurrentRangeSink(), "after");
  EXPECT_THAT(heard.events, testing::ElementsAre("within -1", "left"));
}

}  // namespace
}  // namespace kinora
