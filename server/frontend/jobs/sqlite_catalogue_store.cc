#include "server/frontend/jobs/sqlite_catalogue_store.h"

#include <utility>

#include "server/frontend/jobs/catalogue_tables.h"

namespace kinora {

void SqliteCatalogueStore::PutModel(const v1::ModelInfo& model, Finished done) {
  file_.Write(
      Room::kTakes,
      [model](SqliteJobTables& tables, SqliteFile::Events&) {
        return CatalogueTables(tables.database()).PutModel(model);
      },
      std::move(done));
}

void SqliteCatalogueStore::Models(Done<std::vector<v1::ModelInfo>> done) {
  file_.Read<std::vector<v1::ModelInfo>>(
      [](SqliteJobTables& tables) { return CatalogueTables(tables.database()).Models(); }, std::move(done));
}

void SqliteCatalogueStore::AddSpeed(const std::string& place, const v1::RunSpeed& run, Finished done) {
  file_.Write(
      Room::kTakes,
      [place, run](SqliteJobTables& tables, SqliteFile::Events&) {
        return CatalogueTables(tables.database()).AddSpeed(place, run, kSpeedsKept);
      },
      std::move(done));
}

void SqliteCatalogueStore::Speeds(const std::string& place, Done<v1::SpeedHistory> done) {
  file_.Read<v1::SpeedHistory>(
      [place](SqliteJobTables& tables) { return CatalogueTables(tables.database()).Speeds(place); }, std::move(done));
}

}  // namespace kinora
