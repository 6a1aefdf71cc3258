// The stores of a frontend, opened together as its configuration says.
#ifndef KINORA_SERVER_FRONTEND_STORES_H_
#define KINORA_SERVER_FRONTEND_STORES_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "server/config/config.h"
#include "server/frontend/inputs/input_records.h"
#include "server/frontend/jobs/catalogue_store.h"
#include "server/frontend/jobs/frontend_records.h"
#include "server/frontend/jobs/job_record.h"
#include "server/frontend/jobs/job_store.h"
#include "server/frontend/jobs/shared_clients.h"
#include "server/frontend/jobs/shared_frontends.h"
#include "server/frontend/jobs/state_directory.h"
#include "server/frontend/jobs/state_watch.h"
#include "server/frontend/jobs/store_copy.h"

namespace kinora {

struct FrontendMetrics;

class Stores {
 public:
  virtual ~Stores() = default;  // finishes pending calls first

  virtual JobStore& jobs() = 0;
  virtual CatalogueStore& catalogue() = 0;
  virtual InputRecords& inputs() = 0;
  virtual FrontendRecords& frontends() = 0;
  virtual SharedClientRecords* shared_clients() = 0;      // null unless is_shared
  virtual SharedFrontendRecords* shared_frontends() = 0;  // likewise

  virtual bool is_new() const = 0;  // were empty when they were opened
  // Whether a server keeps them. The answer to a change may then be lost although the change was made, so the frontend
  // has to look for such changes.
  virtual bool is_database() const = 0;
  virtual bool is_shared() const = 0;  // other frontends may use them at the same time
  // Unavailable, with why, once they must not be used any more, until a restart (StateGuard). Thread-safe.
  virtual absl::Status CheckState() = 0;
  // For how long changes have failed; 0 if the last one succeeded. Thread-safe.
  virtual absl::Duration Unwritable() const = 0;
  virtual void StopWatching() = 0;  // no on_lost is called any more, except by CheckState
};

struct StoresOptions {
  JobRules rules;
  EventListener listener;
  // Where artifacts are, for frontends that use a database together: all must have the same. "": it is used alone.
  std::string shared_place;
  FrontendMetrics* metrics = nullptr;  // of a database; null: it has none
  StateWatch watch;                    // files and folders that must stay in place
  std::function<void()> on_lost;       // called once when CheckState begins to fail; on any thread
};

// Errors name the field of the configuration.
absl::StatusOr<std::unique_ptr<Stores>> OpenStores(const v1::FrontendConfig& config, const StateDirectory& state,
                                                   Clock& clock, StoresOptions options);

// Copies the store `from` (a value of FrontendConfig.store) into the one of the configuration, which no frontend has
// used (store_copy.h). Errors: as OpenStores and CopyStore.
absl::StatusOr<StoreSummary> CopyIntoStore(const std::string& from, const v1::FrontendConfig& config,
                                           const StateDirectory& state);

// Checks, without connecting, that the stores of this configuration can be opened here. InvalidArgument, with the
// field.
absl::Status CheckStore(const v1::FrontendConfig& config);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_STORES_H_
