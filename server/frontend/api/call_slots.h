// Limits the open calls of one kind (downloads, uploads), in all and per client. Each call holds memory for a chunk or
// two while its client reads or sends nothing.
#ifndef KINORA_SERVER_FRONTEND_API_CALL_SLOTS_H_
#define KINORA_SERVER_FRONTEND_API_CALL_SLOTS_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace kinora {

class CallSlots {  // thread-safe
 public:
  class Slot {  // held by one call until destroyed
   public:
    Slot(CallSlots& slots, std::string client) : slots_(slots), client_(std::move(client)) {}
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;
    ~Slot() { slots_.Leave(client_); }

   private:
    CallSlots& slots_;
    const std::string client_;
  };

  // calls: "downloads", the word in the limits max_downloads and max_downloads_per_client. `count` is called with the
  // number of open calls, under a lock.
  CallSlots(std::string calls, int all, int per_client, std::function<void(int open)> count)
      : calls_(std::move(calls)), all_(all), per_client_(per_client), count_(std::move(count)) {}

  // Fails with ResourceExhausted, naming the limit. The CallSlots must outlive its slots.
  absl::StatusOr<std::unique_ptr<Slot>> Take(const std::string& client) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Leave(const std::string& client) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Full(const char* suffix, int limit) const;

  const std::string calls_;
  const int all_, per_client_;
  const std::function<void(int)> count_;
  absl::Mutex mu_;
  int open_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<std::string, int> of_client_ ABSL_GUARDED_BY(mu_);  // no zero entries
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_CALL_SLOTS_H_
