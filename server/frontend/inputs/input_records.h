// Stores the records of inputs: which exist, how long, and which are still being uploaded. jobs/store_call.h says how
// it is called.
#ifndef KINORA_SERVER_FRONTEND_INPUTS_INPUT_RECORDS_H_
#define KINORA_SERVER_FRONTEND_INPUTS_INPUT_RECORDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/frontend/jobs/store_call.h"

namespace kinora {

struct InputRecord {         // an input, complete or being uploaded
  std::string sha256;        // of the whole content; the key
  int64_t bytes = 0;         // of the whole content
  std::string media_type{};  // detected in the content; empty while incomplete
  absl::Time expiry = absl::InfinitePast();
};

class InputRecords {
 public:
  virtual ~InputRecords() = default;

  // Replaces the record of the same key. If the records are shared, an incomplete one does not replace a complete one,
  // and the later expiry stays.
  virtual void PutInput(const InputRecord& input, Finished done) = 0;
  // Removes the record; OK if there is none. Aborted: it is complete and has not expired at `now`, so another frontend
  // has put it since.
  virtual void RemoveInput(const std::string& sha256, absl::Time now, Finished done) = 0;
  virtual void Inputs(Done<std::vector<InputRecord>> done) = 0;  // in any order
  // Those of these keys that there are, in any order.
  virtual void FindInputs(std::vector<std::string> keys, Done<std::vector<InputRecord>> done) = 0;
  virtual bool is_shared() const = 0;  // other frontends put and remove records, too
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_INPUTS_INPUT_RECORDS_H_
