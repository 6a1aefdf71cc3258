// The SQL of the catalogue: models and run times. The caller puts related calls into one transaction.
#ifndef KINORA_SERVER_FRONTEND_JOBS_CATALOGUE_TABLES_H_
#define KINORA_SERVER_FRONTEND_JOBS_CATALOGUE_TABLES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kinora/v1/video_generation.pb.h"
#include "kinora/v1/worker.pb.h"
#include "server/frontend/jobs/sqlite.h"

namespace kinora {

class CatalogueTables {
 public:
  explicit CatalogueTables(Database& database) : database_(database) {}

  absl::Status PutModel(const v1::ModelInfo& model);
  absl::StatusOr<std::vector<v1::ModelInfo>> Models();  // skips damaged records

  absl::Status AddSpeed(const std::string& place, const v1::RunSpeed& run, int64_t kept);
  absl::StatusOr<v1::SpeedHistory> Speeds(const std::string& place);  // skips damaged records

 private:
  Database& database_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_CATALOGUE_TABLES_H_
