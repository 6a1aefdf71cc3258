// The simulated world: false time, one heap of events, and everything random from one seed. All of it is one thread, so
// a seed always gives the same run.
#ifndef KINORA_TESTS_SERVER_FRONTEND_SIMULATION_WORLD_H_
#define KINORA_TESTS_SERVER_FRONTEND_SIMULATION_WORLD_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "server/net/executor.h"
#include "tests/testing/fake_clock.h"

namespace kinora::simulation {

class World {
 public:
  using Task = Executor::Task;

  explicit World(uint64_t seed) : random_(seed) {}

  FakeClock& clock() { return clock_; }
  absl::Time now() const { return clock_.Now(); }

  bool Chance(double probability) { return std::uniform_real_distribution<double>(0, 1)(random_) < probability; }
  int Pick(int count) { return static_cast<int>(random_() % static_cast<uint64_t>(count)); }
  absl::Duration Between(absl::Duration least, absl::Duration most);

  void At(absl::Time time, Task task);  // of equal times, in the order of the calls
  void After(absl::Duration delay, Task task) { At(now() + delay, std::move(task)); }
  bool RunNext();  // advances to the next event and runs it; false if there is none
  int64_t events() const { return next_; }

  // Keeps the last notes, for the report of a failure.
  void Note(const std::string& what);
  std::string Notes() const;
  uint64_t digest() const { return digest_; }  // of all notes

 private:
  std::mt19937_64 random_;
  FakeClock clock_;
  int64_t next_ = 0;
  uint64_t digest_ = 0;
  std::map<std::pair<absl::Time, int64_t>, Task> tasks_;
  std::deque<std::string> notes_;
};

// A node's executor: each of its tasks starts a random time of at most `slowest` after it was posted, or after the one
// before it.
class SimExecutor : public Executor {
 public:
  SimExecutor(World& world, absl::Duration slowest) : world_(world), slowest_(slowest) {}
  ~SimExecutor() override { *running_ = false; }

  void Post(Task task) override;
  void PostAt(absl::Time time, Task task) override;
  absl::Time Now() const override { return world_.now(); }
  void Stop() override { *running_ = false; }
  // Runs nothing until then, as a stopped process.
  void PauseUntil(absl::Time time) { *paused_until_ = time; }

 private:
  void At(absl::Time time, Task task);

  World& world_;
  const absl::Duration slowest_;
  absl::Time last_ = absl::InfinitePast();
  const std::shared_ptr<bool> running_ = std::make_shared<bool>(true);
  const std::shared_ptr<absl::Time> paused_until_ = std::make_shared<absl::Time>(absl::InfinitePast());
};

}  // namespace kinora::simulation

#endif  // KINORA_TESTS_SERVER_FRONTEND_SIMULATION_WORLD_H_
