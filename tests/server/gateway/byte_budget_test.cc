#include "server/gateway/byte_budget.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <vector>

namespace kinora {
namespace {

TEST(ByteBudgetTest, GivesWhatIsLeftAndNoMore) {
  ByteBudget budget(100);
  ByteBudget::Share first(budget), second(budget);
  EXPECT_TRUE(first.Grow(60));
  EXPECT_FALSE(second.Grow(41));
  EXPECT_EQ(budget.taken(), 60) << "a refusal takes nothing";
  EXPECT_TRUE(second.Grow(40));
  EXPECT_EQ(budget.taken(), 100);
  EXPECT_FALSE(first.Grow(1));
  EXPECT_TRUE(first.Grow(0));
}

TEST(ByteBudgetTest, GetsBackAllThatAShareHasTaken) {
  ByteBudget budget(100);
  std::optional<ByteBudget::Share> share(std::in_place, budget);
  EXPECT_TRUE(share->Grow(30));
  EXPECT_TRUE(share->Grow(70));
  EXPECT_FALSE(share->Grow(1));
  share.reset();
  EXPECT_EQ(budget.taken(), 0);
  EXPECT_TRUE(ByteBudget::Share(budget).Grow(100));
  EXPECT_TRUE(ByteBudget::Share(budget).Grow(100));
}

TEST(ByteBudgetTest, AShareThatShrinksLeavesRoom) {
  ByteBudget budget(100);
  ByteBudget::Share share(budget);
  EXPECT_TRUE(share.Grow(100));
  share.Shrink(40);
  EXPECT_EQ(share.taken(), 60);
  EXPECT_EQ(budget.left(), 40);
  EXPECT_EQ(budget.bytes(), 100);
  EXPECT_TRUE(ByteBudget::Share(budget).Grow(40));
}

TEST(ByteBudgetTest, ThreadsTogetherTakeNoMoreThanThereIs) {
  constexpr int kThreads = 4, kBytes = 20'000;
  ByteBudget budget(kBytes);
  std::vector<int> taken(kThreads);
  {
    std::vector<std::optional<ByteBudget::Share>> shares(kThreads);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      shares[i].emplace(budget);
      threads.emplace_back([&, i] {
        for (int attempt = 0; attempt < kBytes; ++attempt) taken[i] += shares[i]->Grow(1) ? 1 : 0;
      });
    }
    for (std::thread& thread : threads) thread.join();
    int all = 0;
    for (const int bytes : taken) all += bytes;
    EXPECT_EQ(all, kBytes) << "four times as many were asked for";
  }
  EXPECT_TRUE(ByteBudget::Share(budget).Grow(kBytes));
}

}  // namespace
}  // namespace kinora
