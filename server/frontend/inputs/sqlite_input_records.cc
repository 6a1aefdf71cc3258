#include "server/frontend/inputs/sqlite_input_records.h"

#include <algorithm>
#include <utility>

#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/frontend/jobs/sqlite.h"

namespace kinora {
namespace {

absl::Status Put(Database& database, const InputRecord& input) {
  KINORA_ASSIGN_OR_RETURN(
      Statement insert,
      database.Prepare("INSERT OR REPLACE INTO inputs (sha256, bytes, media_type, expire_micros, checksum) "
                       "VALUES (?1, ?2, ?3, ?4, record_checksum(?1, ?2, ?3, ?4))"));
  return insert.Bind(input.sha256)
      .Bind(input.bytes)
      .Bind(input.media_type)
      .Bind(absl::ToUnixMicros(input.expiry))
      .Run();
}

absl::Status Remove(Database& database, const std::string& sha256, absl::Time now) {
  KINORA_ASSIGN_OR_RETURN(
      Statement remove,
      database.Prepare("DELETE FROM inputs WHERE sha256 = ? AND (media_type = '' OR expire_micros <= ?)"));
  KINORA_RETURN_IF_ERROR(remove.Bind(sha256).Bind(absl::ToUnixMicros(now)).Run());
  KINORA_ASSIGN_OR_RETURN(Statement left, database.Prepare("SELECT 1 FROM inputs WHERE sha256 = ?"));
  left.Bind(sha256);
  KINORA_ASSIGN_OR_RETURN(const bool is_left, left.Row());
  return is_left ? absl::AbortedError("the input has not expired") : absl::OkStatus();
}

absl::StatusOr<std::vector<InputRecord>> All(Database& database) {
  KINORA_ASSIGN_OR_RETURN(Statement select,
                          database.Prepare("SELECT sha256, bytes, media_type, expire_micros, checksum = "
                                           "record_checksum(sha256, bytes, media_type, expire_micros) FROM inputs"));
  std::vector<InputRecord> inputs;
  while (true) {
    KINORA_ASSIGN_OR_RETURN(const bool row, select.Row());
    if (!row) return inputs;
    if (select.Int(4) == 0) {
      Log(Severity::kError, "input_damaged", {{"input", select.Bytes(0)}});  // clients will upload it again
      continue;
    }
    inputs.push_back({.sha256 = select.Bytes(0),
                      .bytes = select.Int(1),
                      .media_type = select.Bytes(2),
                      .expiry = absl::FromUnixMicros(select.Int(3))});
  }
}

}  // namespace

void SqliteInputRecords::PutInput(const InputRecord& input, Finished done) {
  file_.Write(
      Room::kTakes, [input](SqliteJobTables& tables, SqliteFile::Events&) { return Put(tables.database(), input); },
      std::move(done));
}

void SqliteInputRecords::RemoveInput(const std::string& sha256, absl::Time now, Finished done) {
  file_.Write(
      Room::kFrees,
      [sha256, now](SqliteJobTables& tables, SqliteFile::Events&) { return Remove(tables.database(), sha256, now); },
      std::move(done));
}

void SqliteInputRecords::FindInputs(std::vector<std::string> keys, Done<std::vector<InputRecord>> done) {
  Inputs([keys = std::move(keys), done = std::move(done)](absl::StatusOr<std::vector<InputRecord>> inputs) mutable {
    if (inputs.ok()) {
      std::erase_if(*inputs, [&](const InputRecord& input) {
        return std::find(keys.begin(), keys.end(), input.sha256) == keys.end();
      });
    }
    done(std::move(inputs));
  });
}

void SqliteInputRecords::Inputs(Done<std::vector<InputRecord>> done) {
  file_.Read<std::vector<InputRecord>>([](SqliteJobTables& tables) { return All(tables.database()); }, std::move(done));
}

}  // namespace kinora
