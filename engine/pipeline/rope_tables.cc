#include "engine/pipeline/rope_tables.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace kinora {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kShareOfArena = 8, kMost = int64_t{2} << 30;

int64_t RoundUp(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }
int64_t BytesOfOne(const RopeTable& t) { return RoundUp(t.tokens * t.columns * DTypeSize(DType::kF32)); }

// Returns the factors of this rank's tokens.
RopeFactors FactorsOf(const RopeTable& table) {
  std::vector<std::vector<float>> part(table.positions.size());
  for (size_t axis = 0; axis < part.size(); ++axis) {
    const std::vector<float>& all = table.positions[axis];
    for (int64_t i = 0; i < table.tokens; ++i) {
      part[axis].push_back(all[std::min<int64_t>(table.first_token + i, static_cast<int64_t>(all.size()) - 1)]);
    }
  }
  return FactorsOfRope(table.shape, part);
}

// Only the factors are copied; the device computes the table from them.
void Fill(Exec& exec, const RopeTable& table, const Rope& rope) {
  const auto axes = static_cast<int64_t>(table.positions.size());
  const int64_t half = table.shape.width / 2, fractions = axes * table.tokens, frequencies = half / axes;
  std::vector<float> host;
  if (!exec.ops.dry()) {
    RopeFactors factors = FactorsOf(table);
    host = std::move(factors.fractions);
    host.insert(host.end(), factors.frequencies.begin(), factors.frequencies.end());
  }
  ArenaScope temp(exec.arena);
  const Tensor all = temp.Alloc(DType::kF32, {fractions + frequencies});
  exec.ops.stream().CopyFromHost(host.data(), all);
  exec.ops.RopeTable({.fractions = all.Rows(0, fractions).Reshape({axes, table.tokens}),
                      .frequencies = all.Rows(fractions, fractions + frequencies),
                      .pad = half - frequencies * axes,
                      .first_column = table.first_column},
                     rope.cos, rope.sin);
}

std::vector<Rope> Make(Exec& exec, const std::vector<RopeTable>& wanted,
                       const std::function<Tensor(const Shape& shape)>& alloc) {
  std::vector<Rope> made;
  for (const RopeTable& table : wanted) {
    const Shape shape{table.tokens, table.columns};
    made.push_back({.cos = alloc(shape), .sin = alloc(shape)});
    Fill(exec, table, made.back());
  }
  return made;
}

}  // namespace

void RopeTables::MakeRoom(Arena& arena, int64_t run_bytes) {
  end_ = arena.bytes() / kAlignment * kAlignment;
  begin_ = std::max({RoundUp(run_bytes), end_ - std::min(arena.bytes() / kShareOfArena, kMost), int64_t{0}});
  begin_ = std::min(RoundUp(begin_), end_);
  recent_.remove_if([&](const Entry& entry) { return entry.begin < begin_; });
  arena.EndAt(begin_ < end_ ? begin_ : arena.bytes());
}

// Returns the highest place where `bytes` fit, dropping the least recently used tables as needed; nullopt: they are too
// large.
std::optional<int64_t> RopeTables::FindRoom(int64_t bytes) {
  if (bytes > end_ - begin_) return std::nullopt;
  while (true) {
    std::vector<int64_t> ends = {end_};
    for (const Entry& entry : recent_) ends.push_back(entry.begin);
    std::sort(ends.begin(), ends.end(), std::greater<>());
    for (const int64_t end : ends) {
      const auto overlaps = [&](const Entry& entry) { return entry.begin < end && end - bytes < entry.end; };
      if (end - bytes >= begin_ && std::none_of(recent_.begin(), recent_.end(), overlaps)) return end - bytes;
    }
    recent_.pop_back();
  }
}

RopeTables::Stage RopeTables::Get(Exec& exec, std::vector<RopeTable> wanted) {
  const auto found = std::find_if(recent_.begin(), recent_.end(), [&](const Entry& e) { return e.of == wanted; });
  if (found != recent_.end()) {
    recent_.splice(recent_.begin(), recent_, found);
    return {.tables = found->tables, .kept = true};
  }
  ++made_;
  int64_t bytes = 0;
  for (const RopeTable& table : wanted) bytes += 2 * BytesOfOne(table);
  const std::optional<int64_t> begin = FindRoom(bytes);
  if (!begin.has_value()) {
    return {.tables = Make(exec, wanted, [&](const Shape& shape) { return exec.arena.Alloc(DType::kF32, shape); })};
  }
  int64_t next = *begin;
  std::vector<Rope> tables = Make(exec, wanted, [&](const Shape& shape) {
    const Tensor place = exec.arena.Behind(next, DType::kF32, shape);
    next += RoundUp(place.bytes());
    return place;
  });
  recent_.push_front({.of = std::move(wanted), .tables = tables, .begin = *begin, .end = *begin + bytes});
  return {.tables = std::move(tables), .kept = true};
}

}  // namespace kinora
