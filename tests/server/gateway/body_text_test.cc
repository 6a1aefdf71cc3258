#include "server/gateway/body_text.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace kinora {
namespace {

constexpr size_t kPiece = 64 << 10;
constexpr int64_t kMiB = 1 << 20;

TEST(BodyTextTest, TheBudgetHasTheWholeBufferAndLittleMoreThanArrived) {
  ByteBudget budget(100 * kMiB);
  BodyText text(budget);
  const std::string piece(kPiece, 'x');
  int64_t most_spare = 0;
  for (size_t size = 0; size < 16 * kMiB; size += kPiece) {
    ASSERT_TRUE(text.Append(piece));
    const int64_t taken = budget.bytes() - budget.left();
    ASSERT_EQ(taken, static_cast<int64_t>(text.text().capacity()));
    most_spare = std::max(most_spare, taken - static_cast<int64_t>(text.text().size()));
  }
  EXPECT_EQ(text.text(), std::string(16 * kMiB, 'x'));
  EXPECT_LE(most_spare, kMiB);
}

TEST(BodyTextTest, TheOldBufferCountsWhileTheTextGrows) {
  ByteBudget budget(9 * kMiB);
  BodyText text(budget);
  ASSERT_TRUE(text.Append(std::string(4 * kMiB, 'a')));
  EXPECT_TRUE(text.Append("b")) << "4 MiB and 5 MiB";
  ASSERT_TRUE(text.Append(std::string(kMiB - 1, 'c')));
  EXPECT_FALSE(text.Append("d")) << "5 MiB and 6 MiB";
  EXPECT_EQ(text.text().size(), size_t{5 * kMiB}) << "a refusal changes nothing";
  EXPECT_EQ(budget.left(), 4 * kMiB);
}

TEST(BodyTextTest, GivesItsMemoryBack) {
  ByteBudget budget(kMiB);
  {
    BodyText text(budget);
    ASSERT_TRUE(text.Append(std::string(600 << 10, 'x')));
    text.Clear();
    EXPECT_EQ(budget.left(), kMiB);
    EXPECT_EQ(text.text(), "");
    const std::string next(100, 'y');
    ASSERT_TRUE(text.Append(next));
    EXPECT_EQ(text.text(), next);
    EXPECT_LT(budget.left(), kMiB);
  }
  EXPECT_EQ(budget.left(), kMiB);
}

}  // namespace
}  // namespace kinora
