// Random operations on stores, each compared with StoreModel. An operation is data that is drawn without regard to the
// state, so any selection of a sequence is a valid sequence, and a failing one can be shortened.
#ifndef KINORA_TESTS_SERVER_FRONTEND_JOBS_STORE_OPERATIONS_H_
#define KINORA_TESTS_SERVER_FRONTEND_JOBS_STORE_OPERATIONS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "server/frontend/jobs/frontend_records.h"
#include "tests/server/frontend/jobs/store_model.h"
#include "tests/testing/fake_clock.h"

namespace kinora {

// Stores of one kind, opened together. Jobs obey kRules; every stored event is heard.
class OpenStores {
 public:
  static inline const JobRules kRules = {.max_lost_groups = 2, .default_ttl = absl::Hours(1), .frontend = "a"};

  virtual ~OpenStores() = default;
  virtual JobStore& jobs() = 0;
  virtual CatalogueStore& catalogue() = 0;
  virtual InputRecords& inputs() = 0;
  virtual FrontendRecords& frontends() = 0;
  virtual void Reopen() = 0;  // does nothing if the stores do not outlive their process
  virtual const std::vector<v1::VideoEvent>& heard() = 0;
};

struct StoreOperation {
  enum Kind {
    kCreate,
    kFindCreated,
    kClaim,
    kRenew,
    kAppend,
    kFinish,
    kRequeue,
    kCancel,
    kFailQueued,
    kDelete,
    kCancelAndDelete,
    kPurge,
    kSweep,
    kList,
    kEvents,
    kPutModel,
    kAddSpeed,
    kPutInput,
    kRemoveInput,
    kPutFrontend,
    kEndOtherLeases,
    kTakeLostClients,
    kAdvance,
    kReopen,
    kPutResumePoint,
    kKinds
  };
  Kind kind = kCreate;
  int slot = 0;         // a variable that names a job: the last one that was created in it
  uint32_t choice = 0;  // the arguments, by Pick
  // The next argument, below `count`.
  int Pick(int count) {
    const int picked = static_cast<int>(choice % static_cast<uint32_t>(count));
    choice /= static_cast<uint32_t>(count);
    return picked;
  }
};

std::vector<StoreOperation> DrawOperations(uint64_t seed, int count);
std::string Describe(const StoreOperation& operation);

// Applies operations to the stores and to the model.
class StoreComparison {
 public:
  StoreComparison(OpenStores& stores, FakeClock& clock)
      : stores_(stores), clock_(clock), model_(OpenStores::kRules, clock) {}

  // Applies the operation and compares its result and the jobs, and after a Reopen everything. Returns the difference,
  // or "" if there is none.
  std::string Apply(const StoreOperation& operation);
  std::string CompareAll();

 private:
  static constexpr int kSlots = 8;
  friend std::vector<StoreOperation> DrawOperations(uint64_t seed, int count);

  std::string ApplyToJobs(StoreOperation operation);
  std::string ApplyToRecords(StoreOperation operation);
  std::string ApplyToAttempt(StoreOperation operation);
  std::string ApplyToOthers(StoreOperation operation);
  std::string Create(StoreOperation operation);
  std::string Append(const Attempt& attempt, StoreOperation operation);
  std::string PutResumePoint(const Attempt& attempt, StoreOperation operation);
  std::string Finish(const Attempt& attempt, StoreOperation operation);
  std::string Requeue(const Attempt& attempt, StoreOperation operation);
  std::string PutModel(StoreOperation operation);
  std::string AddSpeeds(StoreOperation operation);
  std::string PutOrRemoveInput(StoreOperation operation);
  std::string ApplyToFrontends(StoreOperation operation);
  std::string List(StoreOperation operation);
  std::string CompareList(const ListOptions& options);
  std::string CompareJobs();
  std::string CompareEvents(const JobId& id, int64_t after);
  std::string CompareCatalogue();
  std::string CompareInputs();

  OpenStores& stores_;
  FakeClock& clock_;
  StoreModel model_;
  std::array<JobId, kSlots> slots_;
  std::vector<JobId> ids_ = {"nobody"};  // all that ever were
  size_t heard_ = 0;                     // events compared so far
};

}  // namespace kinora

#endif  // KINORA_TESTS_SERVER_FRONTEND_JOBS_STORE_OPERATIONS_H_
