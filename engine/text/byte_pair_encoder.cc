#include "engine/text/byte_pair_encoder.h"

#include <functional>
#include <queue>
#include <tuple>

namespace kinora {

namespace {

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

BytePairEncoder::BytePairEncoder(const TokenizerModel& model) : listed_(false), byte_ids_(model.byte_ids) {
  ids_.reserve(model.pieces.size());
  for (size_t id = 0; id < model.pieces.size(); ++id) ids_.emplace(model.pieces[id].text, static_cast<int32_t>(id));
}

BytePairEncoder::BytePairEncoder(const TokenizerJson& model) : listed_(true), byte_ids_(model.byte_ids) {
  ids_.reserve(model.pieces.size());
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    if (!model.pieces[id].empty()) ids_.emplace(model.pieces[id], static_cast<int32_t>(id));
  }
  merges_.reserve(model.merges.size());
  for (size_t rank = 0; rank < model.merges.size(); ++rank) {  // a pair listed twice has its last rank
    const TokenizerJson::Merge& merge = model.merges[rank];
    merges_[PairKey(merge.left, merge.right)] = {.rank = rank, .id = merge.result};
  }
}

int32_t BytePairEncoder::Find(std::string_view piece) const {
  const auto found = ids_.find(piece);
  return found == ids_.end() ? -1 : found->second;
}

bool BytePairEncoder::Candidate::operator>(const Candidate& other) const {
  return std::tie(merge.rank, position) > std::tie(other.merge.rank, other.position);
}

std::vector<BytePairEncoder::Symbol> BytePairEncoder::Split(std::string_view text) const {
  std::vector<Symbol> symbols;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    while (end < text.size() && (static_cast<uint8_t>(text[end]) & 0xc0) == 0x80) ++end;
    const auto add = [&](size_t begin, size_t size, int32_t id) {
      const auto index = static_cast<int32_t>(symbols.size());
      symbols.push_back({.begin = text.data() + begin,
                         .size = static_cast<int32_t>(size),
                         .id = id,
                         .previous = index - 1,
                         .next = begin + size < text.size() ? index + 1 : -1});
    };
    const int32_t id = Find(text.substr(at, end - at));
    if (id >= 0 || !listed_) {
      add(at, end - at, id);
    } else {  // byte pieces may merge if the list says so
      for (size_t b = at; b < end; ++b) add(b, 1, byte_ids_[static_cast<uint8_t>(text[b])]);
    }
    at = end;
  }
  return symbols;
}

BytePairEncoder::Merge BytePairEncoder::MergeAt(const std::vector<Symbol>& symbols, int32_t position) const {
  const Symbol& left = symbols[position];
  if (left.size == 0 || left.next < 0) return {};
  const Symbol& right = symbols[left.next];
  if (left.id < 0 || right.id < 0) return {};
  if (listed_) {
    const auto found = merges_.find(PairKey(left.id, right.id));
    return found == merges_.end() ? Merge{} : found->second;
  }
  const int32_t id = Find(std::string_view(left.begin, left.size + right.size));
  if (id < 0) return {};
  return {.rank = static_cast<uint64_t>(id) << 32 | static_cast<uint32_t>(left.size), .id = id};
}

void BytePairEncoder::Encode(std::string_view text, std::vector<int32_t>& ids) const {
  std::vector<Symbol> symbols = Split(text);
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto consider = [&](int32_t position) {
    if (position < 0) return;
    if (const Merge merge = MergeAt(symbols, position); merge.id >= 0) queue.push({merge, position});
  };
  for (int32_t i = 0; i < static_cast<int32_t>(symbols.size()); ++i) consider(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    if (MergeAt(symbols, best.position).id != best.merge.id) continue;  // stale: one of the two has merged since
    Symbol& left = symbols[best.position];
    Symbol& right = symbols[left.next];
    left.size += right.size;
    left.id = best.merge.id;
    left.next = right.next;
    right.size = 0;
    if (left.next >= 0) symbols[left.next].previous = best.position;
    consider(left.previous);
    consider(best.position);
  }
  for (int32_t i = symbols.empty() ? -1 : 0; i >= 0; i = symbols[i].next) {
    if (symbols[i].id >= 0) {
      ids.push_back(symbols[i].id);
      continue;
    }
    for (int32_t b = 0; b < symbols[i].size; ++b) ids.push_back(byte_ids_[static_cast<uint8_t>(symbols[i].begin[b])]);
  }
}

}  // namespace kinora
