// The stores beside MemoryJobStore in memory. Their calls are tasks of an executor, too.
#ifndef KINORA_TESTS_SERVER_FRONTEND_JOBS_MEMORY_STORES_H_
#define KINORA_TESTS_SERVER_FRONTEND_JOBS_MEMORY_STORES_H_

#include <map>
#include <string>
#include <vector>

#include "server/frontend/inputs/input_records.h"
#include "server/frontend/jobs/catalogue_store.h"
#include "server/net/executor.h"

namespace kinora {

class MemoryCatalogueStore : public CatalogueStore {
 public:
  // executor: as in MemoryJobStore.
  explicit MemoryCatalogueStore(Executor& executor) : executor_(executor) {}

  void PutModel(const v1::ModelInfo& model, Finished done) override;
  void Models(Done<std::vector<v1::ModelInfo>> done) override;
  void AddSpeed(const std::string& place, const v1::RunSpeed& run, Finished done) override;
  void Speeds(const std::string& place, Done<v1::SpeedHistory> done) override;

 private:
  Executor& executor_;
  std::map<std::string, v1::ModelInfo> models_;     // by id
  std::map<std::string, v1::SpeedHistory> speeds_;  // by place
};

class MemoryInputRecords : public InputRecords {
 public:
  // executor: as in MemoryJobStore.
  explicit MemoryInputRecords(Executor& executor) : executor_(executor) {}

  void PutInput(const InputRecord& input, Finished done) override;
  void RemoveInput(const std::string& sha256, absl::Time now, Finished done) override;
  void Inputs(Done<std::vector<InputRecord>> done) override;
  void FindInputs(std::vector<std::string> keys, Done<std::vector<InputRecord>> done) override;
  bool is_shared() const override { return false; }

 private:
  Executor& executor_;
  std::map<std::string, InputRecord> inputs_;  // by sha256
};

}  // namespace kinora

#endif  // KINORA_TESTS_SERVER_FRONTEND_JOBS_MEMORY_STORES_H_
