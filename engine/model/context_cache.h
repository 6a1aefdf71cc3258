// An LRU cache of encoded prompts, keyed by content.
#ifndef KINORA_ENGINE_MODEL_CONTEXT_CACHE_H_
#define KINORA_ENGINE_MODEL_CONTEXT_CACHE_H_

#include <cstdint>
#include <list>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "engine/parallel/exec.h"

namespace kinora {

// Not thread-safe. Keys are the content itself, never a hash of it, so two prompts cannot be confused.
class ContextCache {
 public:
  // capacity_bytes: of contexts and keys together. Larger entries are not kept.
  explicit ContextCache(int64_t capacity_bytes) : capacity_(capacity_bytes) {}

  struct Entry {
    Tensor video, audio;  // video is undefined if Put got none
  };
  // Returns null if absent; otherwise an entry that is valid until the next Put. Counts a hit or a miss and makes the
  // entry the most recent one.
  const Entry* Find(const std::string& key);
  // Enqueues copies of both tensors; the caller must synchronize before the originals change. If there is no memory, it
  // keeps nothing and reports no error, so that the run can continue.
  void Put(Exec& exec, const std::string& key, const Tensor& video, const Tensor& audio);

  int64_t bytes() const { return bytes_; }  // at most the capacity
  int64_t entries() const { return static_cast<int64_t>(index_.size()); }
  int64_t hits() const { return hits_; }
  int64_t misses() const { return misses_; }

 private:
  struct Stored {
    std::string key;
    Buffer buffer;
    Entry entry;
    int64_t bytes = 0;
  };
  void Drop(std::list<Stored>::iterator entry);

  const int64_t capacity_;
  int64_t bytes_ = 0, hits_ = 0, misses_ = 0;
  std::list<Stored> recent_;  // most recent first
  std::map<std::string, std::list<Stored>::iterator, std::less<>> index_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_CONTEXT_CACHE_H_
