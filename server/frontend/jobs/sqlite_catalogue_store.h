// CatalogueStore in a SQLite file, next to the jobs.
#ifndef KINORA_SERVER_FRONTEND_JOBS_SQLITE_CATALOGUE_STORE_H_
#define KINORA_SERVER_FRONTEND_JOBS_SQLITE_CATALOGUE_STORE_H_

#include <string>
#include <vector>

#include "server/frontend/jobs/catalogue_store.h"
#include "server/frontend/jobs/sqlite_file.h"

namespace kinora {

class SqliteCatalogueStore : public CatalogueStore {
 public:
  explicit SqliteCatalogueStore(SqliteFile& file) : file_(file) {}  // not owned

  void PutModel(const v1::ModelInfo& model, Finished done) override;
  void Models(Done<std::vector<v1::ModelInfo>> done) override;
  void AddSpeed(const std::string& place, const v1::RunSpeed& run, Finished done) override;
  void Speeds(const std::string& place, Done<v1::SpeedHistory> done) override;

 private:
  SqliteFile& file_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_SQLITE_CATALOGUE_STORE_H_
