// The database that the frontends share, and the news of what they commit to it.
#ifndef KINORA_TESTS_SERVER_FRONTEND_SIMULATION_SIM_DATABASE_H_
#define KINORA_TESTS_SERVER_FRONTEND_SIMULATION_SIM_DATABASE_H_

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/server/frontend/jobs/memory_job_store.h"
#include "tests/server/frontend/jobs/memory_stores.h"
#include "tests/server/frontend/simulation/ledger.h"
#include "tests/server/frontend/simulation/world.h"

namespace kinora::simulation {

class Database {
 public:
  Database(World& world, Ledger& ledger)
      : world_(world),
        loop_(world, absl::Milliseconds(20)),
        jobs_(
            Ledger::kRules, world.clock(),
            [this, &ledger](const v1::VideoEvent& event) {
              ledger.Stored(event);
              for (const auto& listener : listeners_) Tell([&] { listener.second(event); });
            },
            loop_, [this] { return absl::StrCat("job", ++last_job_); }) {}

  MemoryJobStore& jobs() { return jobs_; }
  MemoryCatalogueStore& catalogue() { return catalogue_; }
  // News gets lost and doubled. A frontend alone hears of every event.
  void LoseNews() { loses_news_ = true; }
  // hear: events that were committed; hear_cancel: the cancellation of a run was, which is no event.
  void AddListener(const std::string& name, EventListener hear, std::function<void()> hear_cancel) {
    listeners_[name] = std::move(hear);
    cancel_listeners_[name] = std::move(hear_cancel);
  }
  void RemoveListener(const std::string& name) {
    listeners_.erase(name);
    cancel_listeners_.erase(name);
  }
  void TellCancel() const {
    for (const auto& [name, hear] : cancel_listeners_) Tell(hear);
  }

 private:
  void Tell(const std::function<void()>& hear) const {
    if (loses_news_ && world_.Chance(0.2)) return;
    hear();
    if (loses_news_ && world_.Chance(0.1)) hear();
  }

  World& world_;
  bool loses_news_ = false;
  SimExecutor loop_;
  int last_job_ = 0;
  std::map<std::string, EventListener> listeners_;  // by the frontend's name
  std::map<std::string, std::function<void()>> cancel_listeners_;
  MemoryJobStore jobs_;
  MemoryCatalogueStore catalogue_{loop_};
};

}  // namespace kinora::simulation

#endif  // KINORA_TESTS_SERVER_FRONTEND_SIMULATION_SIM_DATABASE_H_
