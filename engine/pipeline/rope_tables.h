// Rotation tables of denoising stages, kept between requests in memory that the running request leaves free.
#ifndef KINORA_ENGINE_PIPELINE_ROPE_TABLES_H_
#define KINORA_ENGINE_PIPELINE_ROPE_TABLES_H_

#include <cstdint>
#include <list>
#include <optional>
#include <vector>

#include "engine/model/rope.h"
#include "engine/ops/op_params.h"
#include "engine/parallel/exec.h"

namespace kinora {

// Everything on which the values of one table depend.
struct RopeTable {
  RopeShape shape;
  std::vector<std::vector<float>> positions;  // [axes][all tokens]
  int64_t first_token = 0, tokens = 0;        // this rank's; tokens past the last get its position
  int64_t first_column = 0, columns = 0;      // this rank's, of shape.width / 2
  bool operator==(const RopeTable&) const = default;
};

// An LRU cache, keyed by content. The tables lie behind the allocations of the arena, which is reserved in any case, so
// they need no memory of their own: a request that needs theirs gets it. A rank has one. Not thread-safe.
class RopeTables {
 public:
  // Call before each run. Lets tables be kept in at most an eighth of `arena`, and 2 GiB, that a run of `run_bytes`
  // does not need. Drops those that lie elsewhere. Before the first call nothing is kept.
  void MakeRoom(Arena& arena, int64_t run_bytes);

  struct Stage {
    std::vector<Rope> tables;  // in the order of `wanted`
    bool kept = false;         // behind the arena's allocations
  };
  // Returns the tables of a stage. If this stage's are kept, it computes and copies nothing. Otherwise it makes them,
  // dropping those that were used longest ago; if there is no room at all, from exec.arena, for the caller's scope.
  // Kept tables are valid until the next call.
  Stage Get(Exec& exec, std::vector<RopeTable> wanted);
  // Drops all tables, as after a failure of the work that made them.
  void Clear() { recent_.clear(); }

  int64_t made() const { return made_; }  // stages whose tables were made, since construction
  int64_t kept() const { return static_cast<int64_t>(recent_.size()); }

 private:
  struct Entry {
    std::vector<RopeTable> of;
    std::vector<Rope> tables;
    int64_t begin = 0, end = 0;  // in the arena
  };
  std::optional<int64_t> FindRoom(int64_t bytes);

  std::list<Entry> recent_;      // most recent first
  int64_t begin_ = 0, end_ = 0;  // where tables may lie in the arena
  int64_t made_ = 0;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_ROPE_TABLES_H_
