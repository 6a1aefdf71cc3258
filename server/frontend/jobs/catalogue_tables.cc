#include "server/frontend/jobs/catalogue_tables.h"

#include <utility>

#include "engine/base/status_macros.h"

namespace kinora {
namespace {

constexpr int64_t kSpeedsKeptInAll = 5000;

}  // namespace

absl::Status CatalogueTables::PutModel(const v1::ModelInfo& model) {
  KINORA_ASSIGN_OR_RETURN(Statement insert, database_.Prepare("INSERT OR REPLACE INTO models (id, info, checksum) "
                                                              "VALUES (?1, ?2, record_checksum(?1, ?2))"));
  return insert.Bind(model.id()).BindBlob(model.SerializeAsString()).Run();
}

absl::StatusOr<std::vector<v1::ModelInfo>> CatalogueTables::Models() {
  KINORA_ASSIGN_OR_RETURN(
      Statement select, database_.Prepare("SELECT info, checksum = record_checksum(id, info) FROM models ORDER BY id"));
  std::vector<v1::ModelInfo> models;
  while (true) {
    KINORA_ASSIGN_OR_RETURN(const bool row, select.Row());
    if (!row) return models;
    absl::StatusOr<v1::ModelInfo> model = ParseRow<v1::ModelInfo>(select, "model");
    if (model.ok()) models.push_back(*std::move(model));  // a worker or a file will describe a damaged one again
  }
}

absl::Status CatalogueTables::AddSpeed(const std::string& place, const v1::RunSpeed& run, int64_t kept) {
  KINORA_ASSIGN_OR_RETURN(
      Statement insert,
      database_.Prepare("INSERT INTO speeds (place, run, checksum) VALUES (?1, ?2, record_checksum(?1, ?2))"));
  KINORA_RETURN_IF_ERROR(insert.Bind(place).BindBlob(run.SerializeAsString()).Run());
  KINORA_ASSIGN_OR_RETURN(Statement old,
                          database_.Prepare("DELETE FROM speeds WHERE place = ?1 AND ordinal <= (SELECT ordinal FROM "
                                            "speeds WHERE place = ?1 ORDER BY ordinal DESC LIMIT 1 OFFSET ?2)"));
  KINORA_RETURN_IF_ERROR(old.Bind(place).Bind(kept).Run());
  // Also removes those of places that are no longer used.
  KINORA_ASSIGN_OR_RETURN(
      Statement oldest, database_.Prepare("DELETE FROM speeds WHERE ordinal <= (SELECT max(ordinal) FROM speeds) - ?"));
  return oldest.Bind(kSpeedsKeptInAll).Run();
}

absl::StatusOr<v1::SpeedHistory> CatalogueTables::Speeds(const std::string& place) {
  KINORA_ASSIGN_OR_RETURN(Statement select,
                          database_.Prepare("SELECT run, checksum = record_checksum(place, run) FROM speeds "
                                            "WHERE place = ? ORDER BY ordinal"));
  select.Bind(place);
  v1::SpeedHistory history;
  while (true) {
    KINORA_ASSIGN_OR_RETURN(const bool row, select.Row());
    if (!row) return history;
    absl::StatusOr<v1::RunSpeed> run = ParseRow<v1::RunSpeed>(select, "speed");
    if (run.ok()) *history.add_runs() = *std::move(run);  // a damaged one only makes estimates worse
  }
}

}  // namespace kinora
