#include "engine/model/context_cache.h"

#include <utility>

namespace kinora {

const ContextCache::Entry* ContextCache::Find(const std::string& key) {
  const auto found = index_.find(key);
  if (found == index_.end()) {
    ++misses_;
    return nullptr;
  }
  ++hits_;
  recent_.splice(recent_.begin(), recent_, found->second);
  return &recent_.front().entry;
}

void ContextCache::Put(Exec& exec, const std::string& key, const Tensor& video, const Tensor& audio) {
  if (const auto found = index_.find(key); found != index_.end()) Drop(found->second);
  constexpr int64_t kAlign = 64;
  const int64_t video_bytes = video.defined() ? (video.bytes() + kAlign - 1) / kAlign * kAlign : 0;
  const int64_t bytes = video_bytes + audio.bytes() + 2 * static_cast<int64_t>(key.size());  // the key is stored twice
  if (bytes > capacity_) return;
  while (bytes_ + bytes > capacity_) Drop(std::prev(recent_.end()));
  absl::StatusOr<Buffer> buffer = exec.backend.Allocate(video_bytes + audio.bytes(), "an encoded prompt");
  if (!buffer.ok()) return;
  Stored stored{.key = key, .buffer = *std::move(buffer), .entry = {}, .bytes = bytes};
  auto* memory = static_cast<char*>(stored.buffer.data());
  stored.entry.audio = Tensor(audio.dtype(), audio.shape(), memory + video_bytes);
  if (video.defined()) {
    stored.entry.video = Tensor(video.dtype(), video.shape(), memory);
    exec.ops.stream().Copy(video, stored.entry.video);
  }
  exec.ops.stream().Copy(audio, stored.entry.audio);
  recent_.push_front(std::move(stored));
  index_[key] = recent_.begin();
  bytes_ += bytes;
}

void ContextCache::Drop(std::list<Stored>::iterator entry) {
  bytes_ -= entry->bytes;
  index_.erase(entry->key);
  recent_.erase(entry);
}

}  // namespace kinora
