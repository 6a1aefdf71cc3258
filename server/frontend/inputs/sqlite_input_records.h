// InputRecords in a SQLite file, next to the jobs.
#ifndef KINORA_SERVER_FRONTEND_INPUTS_SQLITE_INPUT_RECORDS_H_
#define KINORA_SERVER_FRONTEND_INPUTS_SQLITE_INPUT_RECORDS_H_

#include <string>
#include <vector>

#include "server/frontend/inputs/input_records.h"
#include "server/frontend/jobs/sqlite_file.h"

namespace kinora {

class SqliteInputRecords : public InputRecords {
 public:
  explicit SqliteInputRecords(SqliteFile& file) : file_(file) {}  // not owned

  void PutInput(const InputRecord& input, Finished done) override;
  void RemoveInput(const std::string& sha256, absl::Time now, Finished done) override;
  void Inputs(Done<std::vector<InputRecord>> done) override;
  void FindInputs(std::vector<std::string> keys, Done<std::vector<InputRecord>> done) override;
  bool is_shared() const override { return false; }

 private:
  SqliteFile& file_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_INPUTS_SQLITE_INPUT_RECORDS_H_
