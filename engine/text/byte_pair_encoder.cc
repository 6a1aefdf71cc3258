#include "engine/text/byte_pair_encoder.h"

#include <functional>
#include <queue>
#include <tuple>

namespace kinora {

BytePairEncoder::BytePairEncoder(const TokenizerModel& model) : byte_ids_(model.byte_ids) {
  ids_.reserve(model.pieces.size());
  for (size_t id = 0; id < model.pieces.size(); ++id) ids_.emplace(model.pieces[id].text, static_cast<int32_t>(id));
}

int32_t BytePairEncoder::Find(std::string_view piece) const {
  const auto found = ids_.find(piece);
  return found == ids_.end() ? -1 : found->second;
}

bool BytePairEncoder::Candidate::operator>(const Candidate& other) const {
  return std::tie(id, left_size, position) > std::tie(other.id, other.left_size, other.position);
}

std::vector<BytePairEncoder::Symbol> BytePairEncoder::Split(std::string_view text) const {
  std::vector<Symbol> symbols;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    while (end < text.size() && (static_cast<uint8_t>(text[end]) & 0xc0) == 0x80) ++end;
    const auto index = static_cast<int32_t>(symbols.size());
    symbols.push_back({.begin = text.data() + at,
                       .size = static_cast<int32_t>(end - at),
                       .id = Find(text.substr(at, end - at)),
                       .previous = index - 1,
                       .next = end < text.size() ? index + 1 : -1});
    at = end;
  }
  return symbols;
}

int32_t BytePairEncoder::Merged(const std::vector<Symbol>& symbols, int32_t position) const {
  const Symbol& left = symbols[position];
  if (left.size == 0 || left.next < 0) return -1;
  const Symbol& right = symbols[left.next];
  if (left.id < 0 || right.id < 0) return -1;
  return Find(std::string_view(left.begin, left.size + right.size));
}

void BytePairEncoder::Encode(std::string_view text, std::vector<int32_t>& ids) const {
  std::vector<Symbol> symbols = Split(text);
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto consider = [&](int32_t position) {
    if (position < 0) return;
    if (const int32_t id = Merged(symbols, position); id >= 0) queue.push({id, symbols[position].size, position});
  };
  for (int32_t i = 0; i < static_cast<int32_t>(symbols.size()); ++i) consider(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    if (Merged(symbols, best.position) != best.id) continue;  // stale: one of the two has merged since
    Symbol& left = symbols[best.position];
    Symbol& right = symbols[left.next];
    left.size += right.size;
    left.id = best.id;
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
